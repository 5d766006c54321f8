"""The formula parser against sympy, and what it refuses."""

from fractions import Fraction
from random import Random

import pytest
import sympy

from agon_env.verifiers import symbolic
from agon_env.verifiers.expression import TooLarge, parse, rational_value, symbols
from agon_env.verifiers.latex import normalise
from agon_env.verifiers.tokens import Unreadable

X, Y, N = sympy.symbols("x y N")


def draw(rng, depth):
    """A random expression of sympy."""
    if depth == 0:
        return rng.choice([X, Y, N, sympy.Integer(rng.randint(1, 9)), sympy.Rational(rng.randint(1, 9), 7), sympy.pi, sympy.E])
    a, b = draw(rng, depth - 1), draw(rng, depth - 1)
    return rng.choice(
        [
            a + b,
            a - b,
            a * b,
            a / (b + 11),
            sympy.sqrt(a),
            sympy.sin(a),
            sympy.exp(-b),
            sympy.log(a),
            a ** rng.randint(2, 3),
            -a,
        ]
    )


@pytest.mark.parametrize("seed", range(40))
def test_reads_what_sympy_writes(seed):
    rng = Random(seed)
    expression = draw(rng, 3)
    while expression.has(sympy.zoo, sympy.nan, sympy.oo):
        expression = draw(rng, 3)
    read = parse(normalise(sympy.latex(expression, ln_notation=True)))
    built = symbolic._build(read, {str(s): s for s in (X, Y, N)})
    point = {X: sympy.Rational(13, 7), Y: sympy.Rational(5, 9), N: sympy.Rational(17, 6)}
    difference = (built - expression).subs(point).evalf(30)
    assert abs(difference) <= abs(expression.subs(point).evalf(30)) * 1e-20
    assert symbolic.equal(read, parse(normalise(sympy.latex(sympy.expand(expression), ln_notation=True))))


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("2+3*4", 14),
        ("-2^2", -4),
        ("(-2)^2", 4),
        ("2^{-3}", Fraction(1, 8)),
        ("2^10", 1024),
        (r"\frac{1}{2} \cdot \frac{2}{3} - 1", Fraction(-2, 3)),
        (r"3\frac{1}{4} + 1", Fraction(17, 4)),
        ("3(2)", 6),
        ("(2)(3)", 6),
        ("6/2/3", 1),
        ("5!", 120),
        (r"\binom{7}{3}", 35),
        ("|-3|", 3),
        (r"\lfloor \frac{7}{2} \rfloor + \lceil \frac{7}{2} \rceil", 7),
        (r"0.1 + 0.2", Fraction(3, 10)),
    ],
)
def test_exact_values(text, value):
    assert rational_value(parse(text)) == value


@pytest.mark.parametrize("text", ["pi", "x", r"\sqrt{2}", "2^{x}", "e", r"2^{\frac{1}{2}}"])
def test_what_has_no_plain_rational_value(text):
    assert rational_value(parse(text)) is None


@pytest.mark.parametrize("text", ["9^{9^{9}}", "100000!", "10^{-99999999}", r"\binom{10^{9}}{3}", "((10^{999})^{999})^{999}"])
def test_sizes_are_bounded(text):
    with pytest.raises(TooLarge):
        rational_value(parse(text))


@pytest.mark.parametrize(
    "text",
    ["", "2 3", "1/2x", "2^3^4", "5!!", "f(x, y)", "E[X]", "word", r"\text{not } 5", r"\int x dx", r"\sum_{k} k", "x 2", "(1",
     "1)", "1 +", "{", "a b 3", "x'", "1:2", "52_8", "eval('1')", "__import__", "(" * 2000, "-" * 2000 + "1", r"\frac{1}"],
)  # fmt: skip
def test_what_has_no_single_meaning_is_refused(text):
    with pytest.raises(Unreadable):
        parse(text)


@pytest.mark.parametrize("text", ["0^{-1}", "0^0", r"\frac{1}{0}", "(-1)!", r"(\frac{1}{2})!"])
def test_undefined_values_are_refused(text):
    with pytest.raises(Unreadable):
        rational_value(parse(text))


def test_symbols_keep_case_and_subscripts():
    assert symbols(parse(r"N n a_{12} a_{21} \alpha C_1")) == {"N", "n", "a_12", "a_21", "alpha", "C_1"}
    assert parse("xy") == ("mul", ("sym", "x"), ("sym", "y"))
    assert parse("x dx") == ("mul", ("sym", "x"), ("sym", "dx"))
    assert parse("f(2x)") == parse(r"f(x \cdot 2)") != parse("f(x)")


@pytest.mark.parametrize(
    ("gold", "answer", "equal"),
    [
        (r"\sin(2x)", r"2\sin x \cos x", True),
        (r"\ln(xy)", r"\ln x + \ln y", True),
        (r"\sqrt{x^2}", "|x|", True),
        (r"\sqrt{x^2}", "x", False),
        (r"\cos x", r"\cos x + 10^{-12}", False),
        (r"\arctan x", r"\tan^{-1} x", True),
        (r"\sin^2 x", r"\sin x^2", False),
        (r"\sqrt{2+\sqrt{3}}", r"\frac{\sqrt{6}+\sqrt{2}}{2}", True),
        (r"e^{i\pi/3}", r"\frac{1+\sqrt{3}i}{2}", True),
        (r"\sqrt{2}", r"\frac{141421356237309504880168872420969807857}{10^{38}}", False),
    ],
)
def test_equality_of_formulas(gold, answer, equal):
    assert symbolic.equal(parse(gold), parse(answer)) is equal
    assert symbolic.equal(parse(answer), parse(gold)) is equal


def test_proportional_formulas():
    line, twice, other = parse("x-2y+1"), parse("2x-4y+2"), parse("x-2y+2")
    assert symbolic.proportional(line, twice)
    assert symbolic.proportional(line, twice, positive=True)
    assert symbolic.proportional(line, parse("-x+2y-1"))
    assert not symbolic.proportional(line, parse("-x+2y-1"), positive=True)
    assert not symbolic.proportional(line, other)
    assert not symbolic.proportional(line, parse("x-x"))
