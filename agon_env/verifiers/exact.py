r"""Numbers as people write them, read exactly: `1,234`, `-2\frac{1}{3}`, `0.\overline{3}`, `3 \times 10^{-5}`, `25\%`."""

from __future__ import annotations

import re
from dataclasses import dataclass
from fractions import Fraction

from agon_env.verifiers.units import read_unit

_INTEGER = r"(?:(?!0)\d{1,3}(?:,\d{3})+|\d+)"
_DECIMAL = rf"(?:{_INTEGER}(?:\.\d*)?|\.\d+)"
_NUMBER = re.compile(_DECIMAL)
_FRACTION = re.compile(
    rf"\\frac\s*\{{\s*([-+]?{_DECIMAL})\s*\}}\s*\{{\s*([-+]?{_DECIMAL})\s*\}}|({_DECIMAL})\s*/\s*({_DECIMAL})"
)
_MIXED = re.compile(r"(\d+)\s*\\frac\s*\{(\d+)\}\s*\{(\d+)\}|(\d+) (\d+)/(\d+)")
_REPEATING = re.compile(r"(\d*)\.(\d*)\\(?:overline|bar|dot)\s*\{?(\d+)\}?|(\d+)\.()\((\d+)\)")
_SCIENTIFIC = re.compile(
    rf"(?:({_DECIMAL})\s*(?:\\times|\\cdot|\*|x)\s*)?10\s*\^\s*(?:\{{\s*([-+]?\d{{1,3}})\s*\}}|(\d))|({_DECIMAL})[eE]([-+]?\d{{1,3}})"
)
_PERCENT = r"(?P<percent>\\?%|\\text\s*\{\s*(?:percent|\\?%)\s*\}|percent)"
_DEGREES = r"(?P<degrees>\^\\circ(?:\s*\\text\s*\{\s*(?P<scale>[CF])\s*\})?|\\text\s*\{\s*degrees?\s*\}|degrees?)"
_NAME = (
    r"(?:\\text\s*\{\s*(?P<text>[A-Za-z][A-Za-z ./]*?)(?:\^\{?(?P<inner>\d)\}?)?\s*\}"
    r"|(?P<bare>[A-Za-z]{2,}(?: [A-Za-z]+)?(?:/[A-Za-z]+)?))"
)
_UNIT = re.compile(rf"(?P<value>.*?)\s*(?:{_PERCENT}|{_DEGREES}|{_NAME}\s*(?:\^\s*\{{?(?P<power>\d)\}}?)?)")

_FUNCTION = re.compile(r"(?:sin|cos|tan|cot|sec|csc|ln|log|exp)(?![a-z])")


@dataclass(frozen=True)
class Quantity:
    """A number with what it counts."""

    value: Fraction
    unit: str = ""
    """"%", "deg", "degC", the name of a unit, or "" for a bare number."""

    def agrees(self, gold: Quantity) -> bool:
        """Return whether this is the gold's quantity; a unit that only one of them names is taken as understood."""
        if self.value == gold.value:
            if self.unit == "%" and not gold.unit and abs(gold.value) < 1:
                return gold.value == 0  # 0.5 is 50%; 36 may have been asked for in percent
            return self.unit == gold.unit or not self.unit or not gold.unit
        # 25% is 0.25 as well
        return "%" in (self.unit, gold.unit) and "" in (self.unit, gold.unit) and self._plain() == gold._plain()

    def _plain(self) -> Fraction:
        return self.value / 100 if self.unit == "%" else self.value


def read_quantity(normal: str) -> Quantity | None:
    """Return the quantity that a normalised answer spells out, None if it is anything else."""
    value, unit = split_unit(normal)
    number = read_number(value)
    return None if number is None else Quantity(number, unit)


def split_unit(normal: str) -> tuple[str, str]:
    r"""Return a normalised answer without its unit, and the unit ("" if it has none): `5\pi \text{ cm}` → `5\pi`, "cm"."""
    found = _UNIT.fullmatch(normal)
    if not found:
        return normal, ""
    value = found["value"].strip()
    if found["degrees"] and _FUNCTION.search(value):
        return normal, ""  # the degrees of its argument
    if found["percent"] and value.endswith("%"):
        return normal, ""
    if found["percent"] or found["degrees"]:
        return value, "%" if found["percent"] else f"deg{found['scale'] or ''}"
    unit = read_unit(found["text"] or found["bare"], found["power"] or found["inner"] or "")
    # letters without \text are a unit after a number only: "2 min" is a time, "x min" may be a product
    if not unit or (found["bare"] and read_number(value) is None):
        return normal, ""
    return value, unit


def read_number(normal: str) -> Fraction | None:
    """Return the exact value of a literal number, None if the text is not one."""
    text = normal.strip()
    sign = -1 if text.startswith("-") else 1
    text = text[1:].strip() if text[:1] in ("-", "+") else text
    try:
        value = _read_unsigned(text)
    except (ZeroDivisionError, ValueError):  # 1/0; more digits than int() takes
        return None
    return None if value is None else sign * value


def _read_unsigned(text: str) -> Fraction | None:
    if _NUMBER.fullmatch(text):
        return _decimal(text)
    if found := _FRACTION.fullmatch(text):
        return _decimal(found[1] or found[3]) / _decimal(found[2] or found[4])
    if found := _MIXED.fullmatch(text):
        whole, top, bottom = (int(found[i] or found[i + 3]) for i in (1, 2, 3))
        return whole + Fraction(top, bottom)
    if found := _REPEATING.fullmatch(text):
        head, fixed, period = (found[i] if found[3] else found[i + 3] for i in (1, 2, 3))
        return _decimal(f"{head or 0}.{fixed}") + Fraction(int(period), (10 ** len(period) - 1) * 10 ** len(fixed))
    if found := _SCIENTIFIC.fullmatch(text):
        mantissa, exponent = found[1] or found[4] or "1", int(found[2] or found[3] or found[5])
        return _decimal(mantissa) * Fraction(10) ** exponent
    return None


def _decimal(text: str) -> Fraction:
    return Fraction(text.replace(",", "").removesuffix("."))
