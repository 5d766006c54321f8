r"""A small parser for LaTeX (and plain-text) formulas: arithmetic, powers, roots, elementary functions, symbols.

It reads the fragment in which a final answer has one meaning, and refuses the rest with `Unreadable`: words,
ambiguous juxtaposition (`2 3`, `1/2x`), and sums, integrals and limits, which would let a player restate the
question as its answer. Symbols keep their case and subscripts; `f(2x)`, `W(4)`, `dx` and `\gcd(a, b)` are symbols too.

An expression is a nested tuple, which needs no library and travels as JSON:
`("num", "3/2")`, `("sym", "x_1")`, `("const", "pi" | "e" | "i")`, `("add" | "mul" | "pow", a, b)`,
`("fn", name, a)`, `("root", a, n)` for odd n, `("binomial", n, k)`, `("max" | "min", a, …)`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any, TypeAlias

from agon_env.verifiers.tokens import FUNCTIONS, GREEK, Unreadable, tokens

Expr: TypeAlias = tuple[Any, ...]

MAX_BITS = 200_000
"""Exact values are followed up to this size."""
MAX_DEPTH = 60
"""Nesting that the parser follows."""


class TooLarge(ValueError):
    """The exact value has more than `MAX_BITS` bits."""


_INVERSES = {name: f"arc{name}" for name in ("sin", "cos", "tan", "sinh", "cosh", "tanh")}
_APPLIED = {"f", "g", "h", "F", "G", "H", "P", "E", "J", "Y", "zeta", "eta", "phi", "varphi", "psi", "Phi", "Psi", "Gamma"}


def parse(text: str) -> Expr:
    """Return the expression that `text` (normalised) spells.

    Raises:
        Unreadable: it is outside the fragment, or ambiguous.
    """
    parser = _Parser(tokens(text))
    expression = parser.sum(0)
    if parser.kind != "end":
        raise Unreadable(f"unexpected {parser.value!r}")
    return expression


def symbols(expression: Expr) -> set[str]:
    """Return the names of the symbols in an expression."""
    if expression[0] == "sym":
        return {expression[1]}
    return set().union(*(symbols(part) for part in expression[1:] if isinstance(part, tuple)))


def rational_value(expression: Expr) -> Fraction | None:
    """Return the exact value of an expression of whole numbers, None if it is not plainly rational.

    Raises:
        TooLarge: the value, or a part of it, is too large to be worked out.
        Unreadable: it divides by zero, or takes a factorial or binomial that is not defined.
    """
    kind, *parts = expression
    if kind == "num":
        return Fraction(parts[0])
    if kind == "fn" and parts[0] not in ("factorial", "abs", "floor", "ceil"):
        return None
    if kind not in ("add", "mul", "pow", "fn", "binomial"):
        return None
    values = [rational_value(part) for part in parts if isinstance(part, tuple)]
    if any(value is None for value in values):
        return None
    first, *rest = (value for value in values if value is not None)
    if kind == "fn":
        if parts[0] == "factorial":
            return Fraction(math.factorial(_natural(first, 20_000)))
        rounding: dict[str, Callable[[Fraction], Fraction | int]] = {"abs": abs, "floor": math.floor, "ceil": math.ceil}
        return Fraction(rounding[parts[0]](first))
    if kind == "binomial":
        return Fraction(math.comb(_natural(first, 20_000), _natural(rest[0], 20_000)))
    if kind == "pow":
        return _power(first, rest[0])
    return _bounded(first + rest[0] if kind == "add" else first * rest[0])


def _natural(value: Fraction, most: int) -> int:
    if value.denominator != 1 or value < 0:
        raise Unreadable(f"{value} is not a natural number")
    if value > most:
        raise TooLarge(str(value)[:40])
    return int(value)


def _power(base: Fraction, exponent: Fraction) -> Fraction | None:
    if exponent.denominator != 1:
        return None
    if base == 0:
        if exponent <= 0:
            raise Unreadable("zero to a power that is not positive")
        return base
    if abs(base) == 1:
        return base ** int(exponent % 2)
    bits = max(abs(base.numerator), base.denominator).bit_length()
    if bits * abs(exponent) > MAX_BITS:
        raise TooLarge("a power")
    return base ** int(exponent)


def _bounded(value: Fraction) -> Fraction:
    if max(value.numerator.bit_length(), value.denominator.bit_length()) > MAX_BITS:
        raise TooLarge("a value")
    return value


_MINUS_ONE: Expr = ("num", "-1")


def _sorted(expression: Expr) -> Expr:
    """Return an expression with the operands of its sums and products in one order."""
    kind, *parts = (_sorted(part) if isinstance(part, tuple) else part for part in expression)
    return (kind, *(sorted(parts, key=repr) if kind in ("add", "mul", "max", "min") else parts))


def _named(function: str, *arguments: Expr) -> Expr:
    """Return the value of a function that is not worked out, as a symbol: it equals itself alone."""
    return ("sym", f"{function}{[*map(_sorted, arguments)]}")


def _is_capital(expression: Expr) -> bool:
    """Return whether an expression is a capital letter or a power of one, which may name a space or a group."""
    base = expression[1] if expression[0] == "pow" else expression
    return bool(base[0] == "sym" and base[1][0].isupper() and base[1] not in GREEK)


def _is_bare(expression: Expr) -> bool:
    """Return whether no number or constant is in an expression: x^T and (AB)^T are transposes, 2^T and (1 + r)^T powers."""
    kind, *parts = expression
    return kind not in ("num", "const") and all(_is_bare(part) for part in parts if isinstance(part, tuple))


class _Parser:
    """Recursive descent over the tokens; the current one is `kind`, `value`."""

    def __init__(self, tokens: list[tuple[str, str]]) -> None:
        self.tokens, self.position = tokens, 0
        self.in_function = 0

    @property
    def kind(self) -> str:
        return self.tokens[self.position][0]

    @property
    def value(self) -> str:
        return self.tokens[self.position][1]

    def accept(self, *values: str, kind: str = "mark") -> str | None:
        if self.kind == kind and self.value in values:
            self.position += 1
            return self.tokens[self.position - 1][1]
        return None

    def expect(self, value: str, kind: str = "mark") -> None:
        if not self.accept(value, kind=kind):
            raise Unreadable(f"expected {value!r}, found {self.value!r}")

    def sum(self, depth: int, *, in_bars: bool = False) -> Expr:
        if depth > MAX_DEPTH:
            raise Unreadable("nested too deeply")
        left = self.product(depth, in_bars=in_bars)
        while sign := self.accept("+", "-"):
            right = self.product(depth, in_bars=in_bars)
            left = ("add", left, right if sign == "+" else ("mul", _MINUS_ONE, right))
        return left

    def product(self, depth: int, *, in_bars: bool) -> Expr:
        if sign := self.accept("-", "+"):
            signed = self.product(depth + 1, in_bars=in_bars) if depth < MAX_DEPTH else self.sum(depth + 1)
            return ("mul", _MINUS_ONE, signed) if sign == "-" else signed
        left, divided = self.power(depth), False
        while True:
            if times := self.accept("*") or self.accept("cdot", "times", kind="command"):
                right = self.signed_power(depth)
                if times == "times" and _is_capital(left) and _is_capital(right):
                    raise Unreadable("a product of spaces or groups, perhaps")
                left, divided = ("mul", left, right), False
            elif self.accept("/") or self.accept("div", kind="command"):
                left, divided = ("mul", left, ("pow", self.signed_power(depth), _MINUS_ONE)), True
            elif self.starts_factor(in_bars):
                if divided:
                    raise Unreadable("a factor after a slash: is it above or below?")
                if self.kind == "number" and not self.between_factorials():
                    raise Unreadable("a number after a factor")
                if self.value == "[" and self.tokens[self.position - 1][0] == "symbol":
                    raise Unreadable("E[X] is a function of X, perhaps")
                left = ("mul", left, self.power(depth))
            else:
                return left

    def between_factorials(self) -> bool:
        """Return whether the number that comes is the 4 of 3!4!."""
        return self.tokens[self.position - 1] == self.tokens[self.position + 1] == ("mark", "!")

    def signed_power(self, depth: int) -> Expr:
        return ("mul", _MINUS_ONE, self.power(depth)) if self.accept("-") else self.power(depth)

    def starts_factor(self, in_bars: bool) -> bool:
        if self.kind == "mark":
            return self.value in "({[" or (self.value == "|" and not in_bars)
        return self.kind in ("number", "symbol") or (self.kind == "command" and self.value not in ("rfloor", "rceil"))

    def power(self, depth: int) -> Expr:
        base = self.atom(depth + 1)
        while True:
            if self.accept("!"):
                if self.value == "!":
                    raise Unreadable("a double factorial")
                base = ("fn", "factorial", base)
            elif self.accept("^", "**"):
                if self.in_function and self.accept("circ", kind="command"):
                    base = ("mul", base, ("mul", ("const", "pi"), ("num", "1/180")))
                    continue
                order = [value for _, value in self.tokens[self.position : self.position + 5]]
                if base[0] == "sym" and order[:2] + order[3:] == ["{", "(", ")", "}"]:
                    raise Unreadable("y^{(4)} is a derivative, perhaps")
                exponent = self.exponent(depth + 1)
                if exponent == ("sym", "T") and _is_bare(base):
                    raise Unreadable("a transpose, perhaps")
                if _is_capital(base) and exponent in (("num", "1"), ("mul", _MINUS_ONE, ("num", "1"))):
                    raise Unreadable("the circle S^1 is not S")
                base = ("pow", base, exponent)
                if self.value in ("^", "**"):
                    raise Unreadable("a power of a power without braces")
            else:
                return base

    def exponent(self, depth: int) -> Expr:
        return ("mul", _MINUS_ONE, self.atom(depth)) if self.accept("-") else self.atom(depth)

    def group(self, closing: str, depth: int) -> Expr:
        inner = self.sum(depth)
        self.expect(closing)
        return inner

    def braced(self, depth: int) -> Expr:
        self.expect("{")
        return self.group("}", depth)

    def atom(self, depth: int) -> Expr:
        if depth > MAX_DEPTH:
            raise Unreadable("nested too deeply")
        kind, value = self.tokens[self.position]
        self.position += kind != "end"
        if kind == "number":
            if "." in value and self.applied("number"):
                raise Unreadable("0.5(3) is a product, or has a repeating digit")
            return self.mixed(value)
        if kind == "symbol":
            return self.symbol(value, depth)
        if kind == "command":
            return self.command(value, depth)
        if value in ("(", "{", "["):
            return self.group({"(": ")", "{": "}", "[": "]"}[value], depth)
        if value == "|":
            inner = self.sum(depth, in_bars=True)
            self.expect("|")
            return ("fn", "abs", inner)
        raise Unreadable(f"unexpected {value!r}")

    def mixed(self, value: str) -> Expr:
        r"""A number, or a mixed one such as 2\frac{1}{3}."""
        following = [token[1] for token in self.tokens[self.position : self.position + 7]]
        if "." not in value and following[:1] == ["frac"] and len(following) == 7 and following[1::3] == ["{", "{"]:
            top, bottom = following[2], following[5]
            if top.isdecimal() and bottom.isdecimal() and following[3] == following[6] == "}" and int(bottom):
                self.position += 7
                return ("num", str(int(value) + Fraction(int(top), int(bottom))))
        return ("num", str(Fraction(value)))

    def symbol(self, value: str, depth: int) -> Expr:
        if value in ("e", "i"):
            return ("const", value)
        if value in ("zeta", "Gamma") and self.accept("("):
            return ("fn", value, self.group(")", depth))
        if self.applied("symbol", "number") or (value in _APPLIED and (self.kind, self.value) == ("mark", "(")):
            self.expect("(")
            return _named(value, self.group(")", depth))
        return ("sym", value)

    def applied(self, *kinds: str) -> bool:
        """Return whether a lone letter or number in parentheses comes next, as in W(2)."""
        following = self.tokens[self.position : self.position + 4]
        if "number" in kinds and following[1:2] == [("mark", "-")]:
            del following[1]
        following = following[:3]
        return len(following) == 3 and following[::2] == [("mark", "("), ("mark", ")")] and following[1][0] in kinds

    def command(self, value: str, depth: int) -> Expr:
        if value == "pi":
            if self.applied("symbol"):
                raise Unreadable("pi( ) may be a function")
            return ("const", "pi")
        if value == "frac":
            top = self.braced(depth)
            return ("mul", top, ("pow", self.braced(depth), _MINUS_ONE))
        if value == "sqrt":
            index: Expr = self.group("]", depth) if self.accept("[") else ("num", "2")
            radicand = self.group(")", depth) if self.accept("(") else self.braced(depth)
            if index[0] == "num" and int(Fraction(index[1])) % 2:  # the real root of a negative number
                return ("root", radicand, index)
            return ("pow", radicand, ("pow", index, _MINUS_ONE))
        if value == "binom":
            return ("binomial", self.braced(depth), self.braced(depth))
        if value in ("lfloor", "lceil"):
            inner = self.sum(depth)
            self.expect("r" + value[1:], kind="command")
            return ("fn", "floor" if value == "lfloor" else "ceil", inner)
        if value in ("max", "min", "gcd"):
            closing = {"(": ")", "\\{": "\\}"}.get(self.value, "")
            self.expect(self.value if closing else "(")
            parts = [self.sum(depth)]
            while self.accept(","):
                parts.append(self.sum(depth))
            self.expect(closing)
            if value != "gcd":
                return (value, *parts)
            if not any(map(symbols, parts)):
                raise Unreadable("a greatest common divisor is to be worked out")
            return _named(value, *sorted(parts, key=lambda part: repr(_sorted(part))))
        if value in FUNCTIONS:
            return self.function(value, depth)
        raise Unreadable(f"\\{value} is not part of the fragment")

    def function(self, name: str, depth: int) -> Expr:
        base = exponent = None
        if name == "log" and self.accept("_"):
            base = self.atom(depth)
        if self.accept("^"):
            exponent = self.exponent(depth)
        if exponent == ("mul", _MINUS_ONE, ("num", "1")):
            if name not in _INVERSES:
                raise Unreadable(f"{name}^-1 is ambiguous")
            name, exponent = _INVERSES[name], None
        self.in_function += 1
        argument = self.argument(depth)
        self.in_function -= 1
        value: Expr = ("fn", "ln" if name == "log" else name, argument)
        if base is not None:
            value = ("mul", value, ("pow", ("fn", "ln", base), _MINUS_ONE))
        return value if exponent is None else ("pow", value, exponent)

    def argument(self, depth: int) -> Expr:
        """What a function is applied to: a group, or a product of plain factors up to the next function or sign."""
        if self.kind == "mark" and self.value in ("(", "{", "[", "|"):
            return self.atom(depth)
        plain = ("frac", "sqrt", "pi")
        argument = self.power(depth)
        while self.kind == "symbol" or (self.kind == "command" and self.value in plain):
            argument = ("mul", argument, self.power(depth))
        return argument
