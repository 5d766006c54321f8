r"""One spelling for the many ways to write the same LaTeX: spacing, sizes, fonts, Unicode signs, `\dfrac`."""

from __future__ import annotations

import re
from collections.abc import Callable

from agon_env.verifiers.brackets import top_level
from agon_env.verifiers.units import read_unit, unit_product

_SIGNS = {
    "−": "-", "–": "-", "\u2010": "-", "\u2011": "-", "\ufe63": "-", "\u2044": "/", "\u2215": "/", "\u2236": ":",
    "×": r"\times ", "·": r"\cdot ", "⋅": r"\cdot ", "÷": "/", "π": r"\pi ", "∞": r"\infty ",
    "°": r"^\circ ", "≤": r"\le ", "≥": r"\ge ", "≠": r"\ne ", "∪": r"\cup ", "∩": r"\cap ", "∅": r"\emptyset ",
    "ℝ": r"\mathbb{R}", "ℤ": r"\mathbb{Z}", "ℕ": r"\mathbb{N}", "ℚ": r"\mathbb{Q}", "ℂ": r"\mathbb{C}",
    "±": r"\pm ", "√": r"\sqrt ", "∈": r"\in ", "∗": "*", "∛": r"\sqrt[3]", "\u2009": " ", "\u00a0": " ", "\u202f": " ",
    "≡": r"\equiv ", "≈": r"\approx ",
    "½": r"\frac{1}{2}", "⅓": r"\frac{1}{3}", "⅔": r"\frac{2}{3}", "¼": r"\frac{1}{4}", "¾": r"\frac{3}{4}", "∖": r"\setminus ",
    "α": r"\alpha ", "β": r"\beta ", "γ": r"\gamma ", "δ": r"\delta ", "σ": r"\sigma ", "ω": r"\omega ", "ρ": r"\rho ",
    "θ": r"\theta ", "λ": r"\lambda ", "μ": r"\mu ", "φ": r"\phi ",
}  # fmt: skip
_INVISIBLE = dict.fromkeys(map(ord, "\u200b\u200c\u200d\u2060\ufeff"), "")
_TRANSLATION = (
    {ord(sign): latex for sign, latex in _SIGNS.items()} | _INVISIBLE | {0xFF01 + i: chr(0x21 + i) for i in range(94)}
)

_RAISED = dict(zip("⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻ⁿ", "0123456789+-n", strict=True))
_LOWERED = dict(zip("₀₁₂₃₄₅₆₇₈₉₊₋ₙ", "0123456789+-n", strict=True))
_UNICODE_RUNS: list[tuple[re.Pattern[str], Callable[[re.Match[str]], str]]] = [
    (re.compile(rf"[{''.join(_RAISED)}]+(?!\s*√)"), lambda found: f"^{{{''.join(map(_RAISED.__getitem__, found[0]))}}}"),
    (re.compile(rf"[{''.join(_LOWERED)}]+"), lambda found: f"_{{{''.join(map(_LOWERED.__getitem__, found[0]))}}}"),
    (re.compile(r"√\s*(\d+(?:\.\d+)?)"), lambda found: rf"\sqrt{{{found[1]}}}"),
]
"""Signs that are read as one: x¹², √25."""

_ARGUMENT = r"(\\(?!frac|sqrt)[A-Za-z]+|[A-Za-z0-9])"
_GROUPED = r"(?<![\d.,])(?!0)\d{1,3}(?:,\d{3})+(?!,?\d)"
_FUNCTION = r"((?:a(?:rc?)?)?(?:sin|cos|tan)h?|cot|csc|ln|log|exp|max|gcd)"
_MODULUS = (
    r"(?:\\text\s*\{\s*)?\(?\s*(?:\\text\s*\{\s*)?(?:\\b?mod|(?<![A-Za-z\\])mod)(?![A-Za-z])\s*\}?\s*\{?(\w+)\}?\s*\)?\}?"
)
_BASES = {"two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "seven": 7, "eight": 8, "nine": 9, "ten": 10, "sixteen": 16}


def _ungrouped(found: re.Match[str]) -> str:
    return found[0].replace(",", "")


_REWRITES: list[tuple[re.Pattern[str], str | Callable[[re.Match[str]], str]]] = [
    (re.compile(pattern), replacement)
    for pattern, replacement in (
        (r"\\\\\s*\[[\d.]+(?:pt|em|ex|cm|mm)\]|\\cr(?![A-Za-z])", r"\\\\"),  # the height of a row
        (r"\\(?:h?phantom|[hv]space\*?)\s*\{[^{}]*\}", " "),
        (r"\\(?:begin|end)\s*\{(?:aligned|align\*?|gathered|gather\*?|equation\*?)\}", " "),
        (r"\\\$|\$|(?<!\\)\\[()\[\]]", ""),
        (r"\\(?:text)?color\s*\{[A-Za-z]+\}", ""),
        (r"\\(?:bf|rm|it|sf|tt|[lL]arge|LARGE|[hH]uge)(?![A-Za-z])", ""),
        (r"(?<![\d.,}])0\{,\}(?=\d)", "0."),  # 0{,}125 is a decimal
        (r"(?<=\d)(?:\\[,!;: ]|\{(?:,|\\,)\}|~)+(?=\d{3}(?!\d))", ""),  # 1\,234\,567
        (r"(?<=\d)\{,\}(?=\d+(?![\d{,]))", "."),
        (r"^\s*~[\s~]*(?=[-+\w\\])", r"\\sim "),
        (r"…|\.(?:\s*\.)+|\\(?:ldots|cdots|dotsc|dotsb)(?![A-Za-z])", r"\\dots "),
        (r"\\begin\{cases\}.*\\end\{cases\}", lambda found: re.sub(r"[.,;]\s*(?=\\\\|\\end)", "", found[0])),
        (r"(?<![A-Za-z\\])C\s*\(\s*(\d+)\s*,\s*(\d+)\s*\)", r"\\binom{\1}{\2}"),
        (r"^(?:\{\})?[_^]\{?(\d+)\}?\s*C\s*_\{?(\d+)\}?$", r"\\binom{\1}{\2}"),
        (r"\\not\s*=", r"\\ne "),
        (r"\\lg(?![A-Za-z])", r"\\log_{10}"),
        (r"\\a(?:rc?)?((?:sin|cos|tan)h?)(?![A-Za-z])", r"\\arc\1"),
        (r"\\!", ""),
        (r"\\text\s*\{\s*([-\d.,:]*)\s*\}", r"\1"),
        (r"\}\s*/\s*\\text\s*\{\s*(?=[A-Za-z]+\s*\})", "/"),
        (r"(?i)^\\text\s*\{\s*(?:the\s+)?(?:final\s+|correct\s+)?answer(?:\s+is)?\s*:?\s*\}\s*:?(?!\s*[=<>])", ""),
        (r"^=\s*", ""),
        (r"(?<!\\)\\[,;:> ]|~|\\q?quad(?![A-Za-z])|\\thinspace(?![A-Za-z])", " "),
        (r"\\(?:left|right)\s*\.", ""),
        (r"\\(?:left|right|middle|[bB]ig{1,2}[lrm]?|displaystyle|textstyle|limits|nolimits)(?![A-Za-z])", ""),
        (r"\\(?:textbf|textit|textrm|textsf|texttt|textnormal|mbox|emph)(?=\s*\{)", r"\\text"),
        (r"\\(?:[dtc]|nice)frac(?![A-Za-z])", r"\\frac"),
        (r"\\[dt]binom(?![A-Za-z])", r"\\binom"),
        (r"\{([^{}]*?)\\choose(?![A-Za-z])([^{}]*)\}", r"\\binom{\1}{\2}"),
        (r"\\(mathbb|mathcal|mathfrak)\s*([A-Za-z])(?![A-Za-z])", r"\\\1{\2}"),
        (r"\\colon(?![A-Za-z])|\{:\}", ":"),
        (r"(?<=\d)\s*\\text\s*\{\s*to\s*\}\s*(?=\d)", ":"),
        (r"(?<=[(\[,])\s*\+\s*(?=\\infty|\d)", ""),
        (r"\\(?:leqslant|leq)(?![A-Za-z])", r"\\le"),
        (r"\\(?:geqslant|geq)(?![A-Za-z])", r"\\ge"),
        (r"\\neq(?![A-Za-z])", r"\\ne"),
        (r"\\lt(?![A-Za-z])", "<"),
        (r"\\gt(?![A-Za-z])", ">"),
        (r"\\varnothing(?![A-Za-z])", r"\\emptyset"),
        (r"\\lbrace(?![A-Za-z])", r"\\{"),
        (r"\\rbrace(?![A-Za-z])", r"\\}"),
        (r"^\\\{([^|:]*?)\\mid(?![A-Za-z])", r"\\{\1:"),
        (r"\\(?:[lr]?vert|mid)(?![A-Za-z])", "|"),
        (r"\\[lr]?Vert(?![A-Za-z])", r"\\|"),
        (r"^\\\{([^|:]*[^|:\\])\|(?=[^|]*\\\}$)", r"\\{\1:"),
        (r",?\s*&\s*\\text\s*\{\s*(?:if|for|when)\s*\}", "&"),
        (r",\s*&|&\s*,", "&"),
        (r"<=", r"\\le "),
        (r">=", r"\\ge "),
        (r"(\\text\s*\{[^{}]*[A-Za-z])\s+(and|or)\s*\}", r"\1} \\text{ \2 }"),
        (r"(\^\\circ)\s*([CF])\s*$", r"\1 \\text{\2}"),
        (r"(?i)\s*\\text\s*\{\s*degrees?\s+(C|F)(?:elsius|ahrenheit)?\s*\}$", r"^\\circ \\text{\1}"),
        (r"(?i)(?<=\d)\s*degrees?\s+(C|F)(?:elsius|ahrenheit)$", r"^\\circ \\text{\1}"),
        (r"^\(\s*\\text\s*\{\s*([A-Z])\s*\}\s*\)$", r"(\1)"),
        (r"^(\d+) to (\d+)$", r"\1:\2"),
        (r"^[\d,]+(?:\s*:\s*[\d,]+)+$", lambda found: re.sub(_GROUPED, _ungrouped, found[0])),
        (rf"^{_GROUPED}(?=_)", _ungrouped),
        (r"\\backslash(?![A-Za-z])", r"\\setminus "),
        (r"^[€£]\s*(?=[\d.])", ""),
        (r"^(-?\d{1,3})((?: \d{3})+)$", lambda found: found[0].replace(" ", "")),
        (r"_\s*\\text\s*(?=\{)", "_"),
        (r"_\s*\{\s*\\text\s*(\{[^{}]*\})\s*\}", r"_\1"),
        (r"^\((\d+)\)\s*(?=_)", r"\1"),
        (r"^(\d+)\s*_\s*\{\s*\((\d+)\)\s*\}$", r"\1_{\2}"),
        (r"^([\dA-F]+)\s*(?:\\text\s*\{\s*\(?base\s*\}?|\(?base)\s*(\d+)\s*\)?\s*\}?$", r"\1_{\2}"),
        (r"^\(([\dA-F]+)\)\s*(?=_\{?16\}?$)", r"\1"),
        (r"^([\dA-F]*)\\text\s*\{([\dA-F]+)\}(?=[\dA-F]*_\{?16\}?$)", r"\1\2"),
        (rf"(?<=\d)_\{{\s*({'|'.join(_BASES)})\s*\}}", lambda found: f"_{{{_BASES[found[1]]}}}"),
        (r"\\degree(?![A-Za-z])|\^\s*\{\s*\\circ\s*\}|\^\s*\\circ(?![A-Za-z])", r"^\\circ "),
        (r"(?i)\\text\s*\{\s*infinity\s*\}|(?<![A-Za-z])infinity(?![A-Za-z])", r"\\infty "),
        # TeX takes one letter, digit or command for an argument without braces
        (rf"\\(frac|binom)(?![A-Za-z])\s*{_ARGUMENT}", r"\\\1{\2}"),
        (rf"(\\(?:frac|binom)\s*\{{(?:[^{{}}]|\{{[^{{}}]*\}})*\}})\s*{_ARGUMENT}", r"\1{\2}"),
        (rf"\\sqrt(?![A-Za-z])\s*(\[[^\[\]]*\])?\s*{_ARGUMENT}", r"\\sqrt\1{\2}"),
        (r"\\log\s*_\s*(\d)(?=\d+\s*(?:$|[-+,=)}]))", r"\\log_{\1}"),
        (rf"(?<=\\equiv)(.*?)(?:,\s*)?{_MODULUS}", r"\1\\pmod{\2}"),
        (r"\\pmod\s*(\w+)", r"\\pmod{\1}"),
        (r"(?<![\w.,:])0+(?=\d+(?:\.\d+|_\d+|_\{\d+\})?$)", ""),  # 016, but not 1.05
        (r"^0(?=\d:\d\d$)", ""),
        (r"^\s*\+\s*", ""),
    )
]
_OVER = re.compile(r"\\over(?![A-Za-z])")
_STARRED = re.compile(r"^(\*+)(.*)\1$", re.DOTALL)
_FONT = re.compile(
    r"\\(?:boxed|fbox|mathrm|mathbf|mathit|mathsf|mathnormal|operatorname|bm|boldsymbol|ensuremath|underline)\s*\{"
)
_NAMED_FUNCTION = re.compile(rf"\\(?:operatorname\*?|mathrm|text)\s*\{{\s*{_FUNCTION}\s*\}}")
_PER_UPRIGHT = re.compile(r"(\\mathrm\s*\{\s*[A-Za-z]+)\s*\}\s*/\s*\\mathrm\s*\{\s*(?=[A-Za-z]+\s*\})")
_BOLD = r"\\(?:mathbf|bm|boldsymbol)\s*(?:\{\s*|\s)([A-Za-z])\s*\}?"
_BOLD_PRODUCT = re.compile(rf"{_BOLD}\s*\\(times|cdot)\s*{_BOLD}")
"""Of vectors, then, of which there are two."""
_UPRIGHT = re.compile(
    r"(?:(?<=[\d}])|(?<=\\pi))(?:\\[,;: ]|[~\s])*\\mathrm\s*\{[~\s]*([A-Za-z]+(?:/[A-Za-z]+)?)(\^\{?\d\}?)?\s*\}"
)
_ATOM = r"\\(?:text|mathrm)\s*\{(?:[^{}]|\{[^{}]*\})*\}(?:\s*\^\s*(?:\{\s*-?\d\s*\}|\d))?"
_UNIT_PRODUCT = re.compile(rf"(?<=[\d}}])(?:\\[,;: ]|[~\s])*({_ATOM}(?:(?:\\[,;: ]|[~\s]|\\cdot|/)*{_ATOM})*)\s*$")
_TWO_QUANTITIES = re.compile(
    r"^(\d+)\s*(?:\\text\s*\{\s*)?([a-z]+)[\s}]*(?:\\text\s*\{\s*)?(?:and[\s}]*)?(\d+)\s*(?:\\text\s*\{\s*)?([a-z]+)[\s}]*$"
)
_BRACE = re.compile(r"\\[\\{}]|[{}]")
_CURRENCIES = {"$": "dollars", "€": "euros", "£": "gbp", "¥": "yen", "₹": "rupees", "¢": "cents"}
_MATH_MODE = re.compile(r"\s*\$((?:\\\$|[^$])*)\$\s*")
_PRICE = re.compile(
    r"\s*(?P<sign>-?)\s*(?P<before>\\?[$€£¥₹])?\s*"
    r"(?P<number>(?:\d|[.,](?=\d)|\{,\}|\\[,!]|\\[dt]?frac\s*(?:\{\d+\}\{\d+\}|\d\d))+)\s*(?P<after>\\?[$€£¥₹¢])?[\s.]*"
)
_RANGE = re.compile(r"^(\W*\d[\d.,]*)[\s$\\]*(?:text\{)?–[}\s$\\]*(\d[^-+*/=^_()–]*)$")
"""From one number to another, not a difference."""
_WHOLE_TEXT = re.compile(r"\\text\s*\{")


def matching_brace(text: str, start: int) -> int | None:
    """Return where the brace that opens before `start` closes, None if it does not."""
    depth = 1
    for brace in _BRACE.finditer(text, start):
        depth += {"{": 1, "}": -1}.get(brace[0], 0)
        if depth == 0:
            return brace.start()
    return None


def normalise(answer: str) -> str:
    r"""Return an answer in one spelling: no dollars, fonts, sizes or spacing commands; `\frac{a}{b}`; no final stop.

    Text in `\text{…}` keeps its wrapper unless it is the whole answer, because words around a value change it
    ("not 14").
    """
    if answer.isascii() and answer.isdecimal():
        return answer  # most answers
    for run, spell in _UNICODE_RUNS:
        answer = run.sub(spell, answer)
    answer = _RANGE.sub(r"\1 \\dots \2", _priced(answer))
    text = _STARRED.sub(r"\2", answer.translate(_TRANSLATION).strip()).strip()
    text = _BOLD_PRODUCT.sub(r"\\vec{\1}\\\2 \\vec{\3}", text)
    text = _UNIT_PRODUCT.sub(lambda found: unit_product(found[1]) or found[0], text)
    text = _drop_fonts(_UPRIGHT.sub(_upright, _PER_UPRIGHT.sub(r"\1/", _NAMED_FUNCTION.sub(r"\\\1 ", text))))
    for pattern, replacement in _REWRITES:
        text = pattern.sub(replacement, text)
    text = _strip_end(_ungroup(_over_as_frac(text)))
    while (opening := _WHOLE_TEXT.match(text)) and matching_brace(text, opening.end()) == len(text) - 1:
        text = _strip_end(text[opening.end() : -1])
    while text.startswith("{") and matching_brace(text, 1) == len(text) - 1:
        text = _strip_end(text[1:-1])
    return re.sub(r"\s+", " ", _TWO_QUANTITIES.sub(_both, text))


def spelling(normal: str) -> str:
    """Return what is left of a normalised answer when spaces and braces that mean nothing are gone."""
    text = re.sub(r"([\^_])\s*\{\s*(\w)\s*\}", r"\1\2", normal)
    text = re.sub(r"([\^_]|\\(?:hat|bar|tilde|vec))\s*\{\s*(\\[A-Za-z]+)\s*\}", r"\1\2 ", text)
    text = re.sub(r"(\\(?:hat|bar|tilde|vec))\s*\{\s*(\w)\s*\}", r"\1 \2", text)
    text = re.sub(r"(\\[A-Za-z]+)\s+(?![A-Za-z])", r"\1", text)
    return re.sub(r"(?<![A-Za-z0-9])\s+|\s+(?![A-Za-z0-9])", "", text)


def _ungroup(text: str) -> str:
    """Drop the commas that group the digits of numbers in a text with more than one number in it: `x = 1,234`.

    In brackets, and beside others, a comma groups only if those that separate have a space after them.
    """
    groups = [*re.finditer(_GROUPED, text)]
    if not groups or groups[0][0] == text.strip():
        return text
    others = re.sub(_GROUPED, "", text)
    in_brackets = len(groups) > len([*top_level(text, re.compile(_GROUPED))])
    if re.search(r",(?!\s)", others) or (in_brackets and "," not in others):
        return text
    return re.sub(_GROUPED, _ungrouped, text)


def _priced(answer: str) -> str:
    r"""Write a currency sign before or after a number as the unit of the number; `$5$` is mathematics."""
    if found := _MATH_MODE.fullmatch(answer):
        answer = found[1]
    if not (found := _PRICE.fullmatch(answer)) or bool(found["before"]) == bool(found["after"]):
        return answer
    unit = _CURRENCIES[(found["before"] or found["after"])[-1]]
    return rf"{found['sign']}{found['number']} \text{{{unit}}}"


def _strip_end(text: str) -> str:
    text = text.strip().rstrip(".,;: \t\n").strip()
    return re.sub(r"\s*(?:\\\\|(?<!\\)\\)$", "", text)  # a line break, or what is left of "\ "


def _over_as_frac(text: str) -> str:
    r"""Spell `{a \over b}` as `\frac{a}{b}`: in TeX it divides all of the group that it stands in."""
    while found := _OVER.search(text):
        start, depth = 0, 0
        for brace in reversed([*_BRACE.finditer(text, 0, found.start())]):
            depth += {"{": 1, "}": -1}.get(brace[0], 0)
            if depth > 0:
                start = brace.end()
                break
        end = matching_brace(text, found.end()) if start else len(text)
        below = "" if end is None else text[found.end() : end].strip()
        if end is None or (not start and depth) or _OVER.search(re.sub(r"\{[^{}]*\}", "", below)):
            return text
        fraction = rf"\frac{{{text[start : found.start()].strip()}}}{{{below}}}"
        # 2{1 \over 2} is a mixed number, \sqrt{1 \over 2} and x^{1 \over 2} need their braces
        outside = int(start > 0 and not re.search(r"[A-Za-z\]}^_]\s*$", text[: start - 1]))
        text = text[: start - outside] + fraction + text[end + outside :]
    return text


def _upright(found: re.Match[str]) -> str:
    r"""Upright letters after a value are its unit if they name one: `5\mathrm{m/s}`, but `2\mathrm{i}`."""
    return rf" \text{{{found[1]}{found[2] or ''}}}" if read_unit(found[1], "") else found[0]


def _both(found: re.Match[str]) -> str:
    r"""`3 \text{ hours } 20 \text{ minutes}` is 3 hours and 20 minutes."""
    if not read_unit(found[2], "") or not read_unit(found[4], ""):
        return found[0]
    return rf"{found[1]} \text{{{found[2]}}} \text{{ and }} {found[3]} \text{{{found[4]}}}"


def _drop_fonts(text: str) -> str:
    position = 0
    while found := _FONT.search(text, position):
        end = matching_brace(text, found.end())
        if end is None:
            position = found.end()
            continue
        text = f"{text[: found.start()]} {text[found.end() : end]} {text[end + 1 :]}"
        position = found.start()
    return text
