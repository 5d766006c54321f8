"""Words that may follow a value without changing it. Anything else ("14 or more", "14 dozen") is not read as a unit."""

from __future__ import annotations

import re
from collections import Counter

_MEASURES = {
    "mm": "millimeter millimetre", "cm": "centimeter centimetre", "dm": "decimeter decimetre", "m": "meter metre",
    "km": "kilometer kilometre", "in": "inch inches", "ft": "foot feet", "yd": "yard", "mi": "mile", "mg": "milligram",
    "g": "gram", "kg": "kilogram kilo", "t": "ton tonne", "lb": "pound", "oz": "ounce", "s": "sec second", "min": "minute",
    "h": "hr hour", "ms": "millisecond", "ml": "milliliter millilitre", "l": "liter litre", "gal": "gallon", "mol": "mole",
    "usd": "dollar buck", "rad": "radian", "n": "newton", "j": "joule", "w": "watt", "v": "volt", "hz": "hertz", "pa": "pascal",
    "ohm": "ohm", "gbp": "gbp",
}  # fmt: skip
"""Short form → the other names of the unit."""
_COUNTED = (
    "cent euro nickel dime coin bill unit day week month year yr decade night person people man men woman women child "
    "children kid boy girl student teacher friend player member guest worker employee customer family team class group "
    "way point mark vote digit number integer element term solution root value page book word letter sentence card ball "
    "marble block box boxes bag basket bottle cup glass jar can pack package piece slice bowl plate tablespoon teaspoon "
    "apple orange banana lemon egg cookie cake pie pizza sandwich candy candies cupcake tree flower plant seed leaf "
    "leaves bird fish dog cat cow horse chicken duck sheep rabbit animal car bus buses truck bike bicycle train ticket "
    "seat room house floor door window table chair toy doll game shirt dress shoe sock hat pencil pen crayon sticker "
    "stamp photo picture step lap trip calorie square triangle circle angle side edge vertex vertices face diagonal path "
    "tile cube bead rope stone battery batteries acre handshake "
    "subset arrangement permutation combination zero berry berries cherry cherries strawberry strawberries party parties"
)
_NAMES = {name: short for short, names in _MEASURES.items() for name in [short, *names.split()]} | {
    word: word for word in _COUNTED.split()
}
_SYMBOLS = {"n": "N", "j": "J", "w": "W", "v": "V", "hz": "Hz", "pa": "Pa"}
"""Short forms with a capital; in short forms it matters, as in Mm and mm."""
_PER = re.compile(r"\s*(?:\bper\b|/)\s*")
_PADDING = re.compile(r"^(?:different|distinct|possible)\s+|\s+(?:old|in total|each)$")
_FACTOR = re.compile(r"([A-Za-z]+)\s*\}?\s*(?:\^\s*\{?\s*(-?\d))?")
_PRODUCT = re.compile(r"(?:[A-Za-z]|\^\s*\{?\s*-?\d|[\s/}])+")
_POWER = re.compile(r"(?P<square>square|sq\.?)\s+|(?:cubic|cu\.?)\s+")


def read_unit(words: str, power: str) -> str:
    """Return one name for a unit, "" if the words are none: "Miles per hour" → "mi/h", "square feet" → "ft2".

    Args:
        words: what follows the value.
        power: the exponent of the unit, "" if it has none.
    """
    if not all(map(_is_cased, re.findall(r"\b[A-Za-z]{1,2}\b", words))):
        return ""
    words = _PADDING.sub("", words.strip(" .").lower())
    over, slash, under = _PER.sub("/", words, count=1).partition("/")
    if over == "mph" and not slash:
        over, slash, under = "mile", "/", "hour"
    if prefix := _POWER.match(over):
        over, power = over[prefix.end() :], power or ("2" if prefix["square"] else "3")
    if "." in over + under:
        factors = [factor for side in (over, under) for factor in side.split(".") if factor]
        return over + slash + under if not power and all(factor in _MEASURES for factor in factors) else ""
    names = [_NAMES.get(name) or _NAMES.get(name.removesuffix("s"), "") for name in ([over, under] if slash else [over])]
    unit = "/".join(names) + power
    return unit if all(names) else ""


def unit_product(text: str) -> str:
    r"""Return one spelling for a product of measures, "" for another text: `\text{m}\cdot\text{s}^{-2}` → ` \text{m/s}^2`."""
    plain = re.sub(r"\\(?:text|mathrm)\s*\{|\\cdot(?![A-Za-z])|\\[,;: ]|~", " ", text)
    if not _PRODUCT.fullmatch(plain) or plain.count("/") > 1:
        return ""
    powers: Counter[str] = Counter()
    over, _, under = plain.partition("/")
    for part, sign in ((over, 1), (under, -1)):
        for name, power in _FACTOR.findall(part):
            short = _NAMES.get(name.lower(), "") if _is_cased(name) or len(name) > 2 else ""
            if short not in _MEASURES:
                return ""
            powers[short] += sign * int(power or 1)
    above = sorted(name for name, power in powers.items() if power > 0)
    below = sorted(name for name, power in powers.items() if power < 0)
    if len(powers) == 1 and above:
        return rf" \text{{{_cased(above[0])}}}^{powers[above[0]]}" if powers[above[0]] > 1 else ""
    if len(above) == len(below) == 1 and powers[above[0]] == 1:
        power = -powers[below[0]]
        return rf" \text{{{_cased(above[0])}/{_cased(below[0])}}}" + (f"^{power}" if power > 1 else "")
    sides = (".".join(_cased(name) for name in names for _ in range(abs(powers[name]))) for names in (above, below))
    return rf" \text{{{'/'.join(filter(None, sides))}}}" if above else ""


def _cased(short: str) -> str:
    return _SYMBOLS.get(short, short)


def _is_cased(symbol: str) -> bool:
    symbol = symbol.replace("L", "l")  # both are litres
    return symbol == _SYMBOLS.get(symbol.lower(), symbol.lower())
