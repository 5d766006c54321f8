"""Answers that are compared as text: words, single letters, names of points, times and dates."""

from __future__ import annotations

import re

_YES, _NO = {"yes", "true"}, {"no", "false"}
_WORDS = re.compile(r"[A-Za-z][A-Za-z' -]*")
_SHORT_WORDS = {"odd", "all", "any", "dne"}
_SYNONYMS = {
    "dne": "does not exist", "no solutions": "no solution", "the empty set": "empty set", "all reals": "all real numbers",
    "all the real numbers": "all real numbers", "the real numbers": "all real numbers",
}  # fmt: skip
_SETS = {"empty set", "all real numbers"}
"""What may be written in signs as well."""
_LETTERS = re.compile(r"(?![abc]{3}$|[xyz]{3}$)(?:[A-Za-z]{3}|[A-Z]{2})")
"""Words and names that are too short for `_WORDS`: "dog", "AB"; products are "xy" and "abc"."""
_CHOICE = re.compile(r"\(?\s*([A-Z])\s*\)?")
_CHOICE_AND_TEXT = re.compile(
    r"(?:\(\s*([A-Z])\s*\)|([A-Z])\s*[).:])\s*"
    r"(?P<text>(?:-?(?:[\dA-Za-z.$]|\\(?:frac|sqrt|pi|ln|log|sin|cos|tan|infty|mathbb|\{))|(?<=\s)[(\[]).*)",
    re.DOTALL,
)
"""The text begins as a value does: "(A) + 1" and "(A), 99" are no choices."""
DENIALS = (
    "not|wrong|incorrect|false|never|isnt|no|but|except|than|least|most|about|impossible|bound|estimate|estimated|around|"
    "approximately|approx|roughly|nearly|almost|guess|unknown|cannot|cant|doesnt|nothing|none|neither|nor|unless|if|or|"
    "anything|maybe|perhaps|possibly|probably|minus|twice|less|more|greater|fewer|instead|rather|another|unlike|reciprocal"
)
"""Words after which a value, or a choice, is not what is answered."""
_NO_CHOICE_TEXT = re.compile(
    rf"(?<![A-Za-z\\])[A-Z](?![A-Za-z])|(?<![A-Za-z(\\])[a-z]\)|\?|\\boxed|(?i:(?<![A-Za-z])(?:{DENIALS})(?![A-Za-z]))"
)
"""What makes more, or nothing, of a choice: another letter, a doubt."""
_CLOCK = re.compile(r"(\d{1,2}(?::\d\d)?)\s*(?:\\text\s*\{)?\s*([AaPp])\.?\s?[Mm]\.?\s*\}?")
_DATE = re.compile(r"\d{4}-\d\d?-\d\d?")


def same_words(gold: str, answer: str) -> bool | None:
    """Compare normalised answers of which one at least is text; None if neither is, or if the text names a set of numbers."""
    if _DATE.fullmatch(gold) or _DATE.fullmatch(answer):
        return False  # not spelled the same, and no difference of numbers
    if wanted := _CHOICE.fullmatch(gold):
        chosen = _read_choice(answer)
        return chosen == wanted[1] if chosen or len(gold) == 1 else None
    words = read_words(gold), read_words(answer)
    if any(words):
        return True if words[0] == words[1] else None if _SETS.intersection(words) else False
    if (clocks := (_CLOCK.fullmatch(gold), _CLOCK.fullmatch(answer))) and clocks[0] and clocks[1]:
        return _time(clocks[0]) == _time(clocks[1])
    if _LETTERS.fullmatch(gold) and _LETTERS.fullmatch(answer):
        return gold == answer or (_is_plain(gold) and _is_plain(answer) and gold.lower() == answer.lower())
    return None


def read_words(text: str) -> str:
    """Return a spelling for an answer in words, "" if it is not one."""
    plain = text.replace(r"\text", "").strip("{} \"'`“”")
    if not _WORDS.fullmatch(plain):
        return ""
    plain = " ".join(plain.lower().split())
    if plain in _YES | _NO:
        return "yes" if plain in _YES else "no"
    plain = _SYNONYMS.get(plain, plain)
    # "xy" is a product; "converges" and "not 14" are words
    return plain if len(max(plain.split(), key=len)) > 3 or r"\text" in text or plain in _SHORT_WORDS else ""


def _read_choice(text: str) -> str:
    r"""Return the letter that is chosen, "" if that is not one: B of "(B)", "Option B" and `\text{B) } 12`."""
    text = re.sub(r"^(?i:option|choice)\s+", "", re.sub(r"\\text|(?<!\\)[{}]", "", text).strip())
    if found := _CHOICE.fullmatch(text):
        return found[1]
    found = _CHOICE_AND_TEXT.fullmatch(text)
    return (found[1] or found[2]) if found and not _NO_CHOICE_TEXT.search(found["text"]) else ""


def _time(clock: re.Match[str]) -> tuple[str, str]:
    hour, half = clock.groups()
    return hour if ":" in hour else f"{hour}:00", half.lower()


def _is_plain(word: str) -> bool:
    """Return whether a word has no capitals but perhaps the first: "Red", but not "ABC"."""
    return word[1:].islower()
