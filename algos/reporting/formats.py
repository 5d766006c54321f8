"""How numbers are written on a page."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from markupsafe import Markup

from agon_env.printable import printable
from algos.statistics import Estimate

NOTHING = "–"
MOST_CHARACTERS = 1000
"""Of a name or a setting; it is a table, after all."""


def share(value: float | None, *, sign: bool = False) -> str:
    """Return a share as a percentage; with a sign, a difference of shares in percentage points."""
    if value is None:
        return NOTHING
    return f"{_signed(f'{100 * value:+.1f}')} pp" if sign else f"{100 * value:.1f} %"


def plain(value: float | None, *, sign: bool = False) -> str:
    """Return a number with about four digits; with a sign, a difference, which has no more than the numbers."""
    if value is None:
        return NOTHING
    digits = 0 if abs(value) >= 1000 or float(value).is_integer() else 1 if abs(value) >= (1 if sign else 10) else 3
    return _signed(f"{value:+,.{digits}f}") if sign else f"{value:,.{digits}f}".replace("-", "−")


def _signed(number: str) -> str:
    """Return a number with its sign; nothing has none."""
    return number.replace("-", "−") if number.strip("+-0.,") else number[1:]


def estimate(value: Estimate | float | None, *, as_share: bool, sign: bool = False) -> str:
    """Return a value, and behind it its interval where it has one."""
    write = share if as_share else plain
    if not isinstance(value, Estimate):
        return write(value, sign=sign)
    low, high = (write(end, sign=sign).partition(" ")[0] for end in (value.low, value.high))
    return f"{write(value.value, sign=sign)} [{low}, {high}]"


def seconds(value: float) -> str:
    """Return a duration."""
    if value < 120:
        return f"{value:.2f} s" if value < 10 else f"{value:.0f} s"
    minutes = round(value / 60)
    return f"{minutes} min" if minutes < 120 else f"{minutes // 60} h {minutes % 60} min"


def span(steps: tuple[int, int]) -> str:
    """Return the steps from the first to the last."""
    first, last = steps
    return str(first) if first == last else f"{first}–{last}"


def visible(value: object) -> object:
    """Return a text, cut if it is long, with every character that acts instead of showing as its escape; other values as is."""
    return value if isinstance(value, Markup) or not isinstance(value, str) else printable(value, limit=MOST_CHARACTERS)


FILTERS: Mapping[str, Callable[..., str]] = {
    "share": share,
    "plain": plain,
    "estimate": estimate,
    "seconds": seconds,
    "span": span,
}
