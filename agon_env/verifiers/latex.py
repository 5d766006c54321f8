r"""One spelling for the many ways to write the same LaTeX: spacing, sizes, fonts, Unicode signs, `\dfrac`."""

from __future__ import annotations

import re
from collections.abc import Callable

from agon_env.verifiers.units import read_unit

_SIGNS = {
    "−": "-", "–": "-", "×": r"\times ", "·": r"\cdot ", "⋅": r"\cdot ", "÷": "/", "π": r"\pi ", "∞": r"\infty ",
    "°": r"^\circ ", "≤": r"\le ", "≥": r"\ge ", "≠": r"\ne ", "∪": r"\cup ", "∩": r"\cap ", "∅": r"\emptyset ",
    "ℝ": r"\mathbb{R}", "±": r"\pm ", "√": r"\sqrt ", "∈": r"\in ", "²": "^{2}", "³": "^{3}", "\u2009": " ", "\u00a0": " ",
    "½": r"\frac{1}{2}", "⅓": r"\frac{1}{3}", "⅔": r"\frac{2}{3}", "¼": r"\frac{1}{4}", "¾": r"\frac{3}{4}", "∖": r"\setminus ",
    "α": r"\alpha ", "β": r"\beta ", "γ": r"\gamma ", "θ": r"\theta ", "λ": r"\lambda ", "μ": r"\mu ", "φ": r"\phi ",
}  # fmt: skip
_INVISIBLE = dict.fromkeys(map(ord, "\u200b\u200c\u200d\u2060\ufeff"), "")
_TRANSLATION = (
    {ord(sign): latex for sign, latex in _SIGNS.items()} | _INVISIBLE | {0xFF01 + i: chr(0x21 + i) for i in range(94)}
)

_ARGUMENT = r"(\\(?!frac|sqrt)[A-Za-z]+|[A-Za-z0-9])"
_BASES = {"two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "seven": 7, "eight": 8, "nine": 9, "ten": 10, "sixteen": 16}

_REWRITES: list[tuple[re.Pattern[str], str | Callable[[re.Match[str]], str]]] = [
    (re.compile(pattern), replacement)
    for pattern, replacement in (
        (r"\\\\\s*\[[\d.]+(?:pt|em|ex|cm|mm)\]", r"\\\\"),  # the height of a row
        (r"\\\$|\$|(?<!\\)\\[()\[\]]", ""),
        (r"\\(?:text)?color\s*\{[A-Za-z]+\}", ""),
        (r"\\(?:bf|rm|it|sf|tt)(?![A-Za-z])", ""),
        (r"(?<=\d)(?:\\[,!;: ]|\{,\}|~)+(?=\d{3}(?!\d))", ""),  # 1\,234\,567
        (r"\\!", ""),
        (r"\\text\s*\{\s*([-\d.,]*)\s*\}", r"\1"),
        (r"\}\s*/\s*\\text\s*\{\s*(?=[A-Za-z]+\s*\})", "/"),
        (r"^=\s*", ""),
        (r"(?<!\\)\\[,;:> ]|~|\\q?quad(?![A-Za-z])|\\thinspace(?![A-Za-z])", " "),
        (r"\\(?:left|right)\s*\.", ""),
        (r"\\(?:left|right|[bB]ig{1,2}[lrm]?|displaystyle|textstyle|limits|nolimits)(?![A-Za-z])", ""),
        (r"\\(?:textbf|textit|textrm|textsf|texttt|textnormal|mbox|emph)(?=\s*\{)", r"\\text"),
        (r"\\[dtc]frac(?![A-Za-z])", r"\\frac"),
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
        (r"\\(?:[lr]vert|mid)(?![A-Za-z])", "|"),
        (r"\\backslash(?![A-Za-z])", r"\\setminus "),
        (r"^[€£]\s*(?=[\d.])", ""),
        (r"^(\d{1,3})((?: \d{3})+)$", lambda found: found[0].replace(" ", "")),
        (r"_\s*\\text\s*(?=\{)", "_"),
        (r"_\s*\{\s*\\text\s*(\{[^{}]*\})\s*\}", r"_\1"),
        (r"^\((\d+)\)\s*(?=_)", r"\1"),
        (rf"(?<=\d)_\{{({'|'.join(_BASES)})\}}", lambda found: f"_{{{_BASES[found[1]]}}}"),
        (r"\\degree(?![A-Za-z])|\^\s*\{\s*\\circ\s*\}|\^\s*\\circ(?![A-Za-z])", r"^\\circ "),
        (r"(?i)(?<![A-Za-z])infinity(?![A-Za-z])", r"\\infty "),
        (r"\{([^{}]*?)\\over(?![A-Za-z])([^{}]*)\}", r"\\frac{\1}{\2}"),
        # TeX takes one letter, digit or command for an argument without braces
        (rf"\\frac(?![A-Za-z])\s*{_ARGUMENT}", r"\\frac{\1}"),
        (rf"(\\frac\s*\{{(?:[^{{}}]|\{{[^{{}}]*\}})*\}})\s*{_ARGUMENT}", r"\1{\2}"),
        (rf"\\sqrt(?![A-Za-z])\s*{_ARGUMENT}", r"\\sqrt{\1}"),
        (r"\\pmod\s*(\w+)", r"\\pmod{\1}"),
        (r"(?<![\w.,])0+(?=\d+(?:\.\d+)?$)", ""),  # 016, but not 1.05
        (r"^\s*\+\s*", ""),
    )
]
_STARRED = re.compile(r"^(\*+)(.*)\1$", re.DOTALL)
_FONT = re.compile(
    r"\\(?:boxed|fbox|mathrm|mathbf|mathit|mathsf|mathnormal|operatorname|bm|boldsymbol|ensuremath|underline)\s*\{"
)
_UPRIGHT = re.compile(r"(?<=[\d}])(?:\\[,;: ]|[~\s])*\\mathrm\s*\{[~\s]*([A-Za-z]+(?:/[A-Za-z]+)?)(\^\{?\d\}?)?\s*\}")
_WHOLE_TEXT = re.compile(r"\\text\s*\{")


def matching_brace(text: str, start: int) -> int | None:
    """Return where the brace that opens before `start` closes, None if it does not."""
    depth = 1
    for brace in re.compile(r"\\[\\{}]|[{}]").finditer(text, start):
        depth += {"{": 1, "}": -1}.get(brace[0], 0)
        if depth == 0:
            return brace.start()
    return None


def normalise(answer: str) -> str:
    r"""Return an answer in one spelling: no dollars, fonts, sizes or spacing commands; `\frac{a}{b}`; no final stop.

    Text in `\text{…}` keeps its wrapper unless it is the whole answer, because words around a value change it
    ("not 14").
    """
    text = _STARRED.sub(r"\2", answer.translate(_TRANSLATION).strip()).strip()
    text = _drop_fonts(_UPRIGHT.sub(_upright, text))
    for pattern, replacement in _REWRITES:
        text = pattern.sub(replacement, text)
    text = _strip_end(text)
    while (opening := _WHOLE_TEXT.match(text)) and matching_brace(text, opening.end()) == len(text) - 1:
        text = _strip_end(text[opening.end() : -1])
    while text.startswith("{") and matching_brace(text, 1) == len(text) - 1:
        text = _strip_end(text[1:-1])
    return re.sub(r"\s+", " ", text)


def spelling(normal: str) -> str:
    """Return what is left of a normalised answer when spaces and braces that mean nothing are gone."""
    text = re.sub(r"([\^_])\s*\{\s*(\w)\s*\}", r"\1\2", normal)
    return re.sub(r"(?<![A-Za-z0-9])\s+|\s+(?![A-Za-z0-9])", "", text)


def _strip_end(text: str) -> str:
    text = text.strip().rstrip(".,;: \t\n").strip()
    return re.sub(r"\s*(?:\\\\|(?<!\\)\\)$", "", text)  # a line break, or what is left of "\ "


def _upright(found: re.Match[str]) -> str:
    r"""Upright letters after a value are its unit if they name one: `5\mathrm{m/s}`, but `2\mathrm{i}`."""
    return rf" \text{{{found[1]}{found[2] or ''}}}" if read_unit(found[1], "") else found[0]


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
