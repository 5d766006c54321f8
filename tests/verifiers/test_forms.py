"""Properties of the kinds of answers in `forms`: the right form is credited, its neighbours are not."""

from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agon_env.verifiers import MathVerifier
from agon_env.verifiers.extraction import extract_answer

VERIFIER = MathVerifier(deadline=10)
numbers = st.integers(-999, 999)
GAPS = [
    " ",
    "",
    ", ",
    " and ",
    " or ",
    "$, $",
    "\n",
    r"\quad ",
    r" \text{ and } ",
    " / ",
    "; ",
    r"\] \[",
    " & ",
    "* *",
    "\n- ",
    "\n  • ",
]


def credits(answer, gold):
    return VERIFIER.score(rf"It is $\boxed{{{answer}}}$.", gold).score == 1.0


@settings(max_examples=60, deadline=None)
@given(st.lists(numbers, min_size=2, max_size=5, unique=True), st.sampled_from(GAPS))
def test_boxes_beside_each_other_are_all_the_values_and_none_of_them(values, gap):
    boxes = gap.join(rf"\boxed{{{value}}}" for value in values)
    text = f"${boxes}$"
    assert VERIFIER.score(text, ", ".join(map(str, values))).score == 1.0
    for value in values:
        assert VERIFIER.score(text, str(value)).score == 0.0


@settings(max_examples=40, deadline=None)
@given(numbers, numbers, st.sampled_from(["\n\n", " no, ", " = ", ". ", " then ", "+"]))
def test_a_box_after_words_is_the_answer_alone(first, last, gap):
    assert extract_answer(rf"\boxed{{{first}}}{gap}\boxed{{{last}}}") == str(last)


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 40), st.integers(1, 59), st.sampled_from([("hour", "minute"), ("minute", "second"), ("hours", "min")]))
def test_an_amount_in_two_units_is_their_sum(more, less, names):
    total = rf"{60 * more + less}\text{{ {names[1]}}}"
    assert credits(rf"{more}\text{{ {names[0]} }}{less}\text{{ {names[1]}}}", total)
    assert credits(total, rf"{more}\text{{ {names[0]} and }}{less}\text{{ {names[1]}}}")
    assert not credits(rf"{more}\text{{ {names[0]} }}{less + 1}\text{{ {names[1]}}}", total)
    assert not credits(rf"{less}\text{{ {names[1]} }}{more}\text{{ {names[0]}}}", total)
    assert not credits(rf"{more}\text{{ {names[0]} }}{less}\text{{ {names[1]}}}", str(60 * more + less))


@settings(max_examples=20, deadline=None)
@given(st.integers(1, 720))
def test_degrees_are_radians(degrees):
    radians = Fraction(degrees, 180)
    assert credits(rf"\frac{{{radians.numerator}\pi}}{{{radians.denominator}}}", rf"{degrees}^\circ")
    assert credits(rf"{degrees}^\circ", rf"\frac{{{radians.numerator}}}{{{radians.denominator}}}\pi")
    assert not credits(rf"\frac{{{degrees + 1}\pi}}{{180}}", rf"{degrees}^\circ")
    assert not credits(rf"\frac{{{degrees}\pi}}{{180}}", str(degrees))


@settings(max_examples=60, deadline=None)
@given(st.integers(2, 9), st.integers(3, 5000))
def test_the_base_of_a_numeral_may_be_left_out_of_an_answer_alone(base, value):
    digits, rest = "", value
    while rest:
        digits, rest = f"{rest % base}{digits}", rest // base
    assert credits(digits, f"{digits}_{base}")
    assert not credits(f"{digits}_{base}", digits)
    assert not credits(f"{digits}_{base + 1}", f"{digits}_{base}")
    assert not credits(f"{digits}0", f"{digits}_{base}")
    assert credits(str(value), f"{digits}_{base}") == (str(value) == digits)


@settings(max_examples=60, deadline=None)
@given(st.sampled_from("ABCDE"), st.sampled_from("ABCDE"), st.sampled_from(["12", r"\frac{1}{2}", r"\text{Paris}", "x+1"]))
def test_a_choice_may_bring_its_text_but_no_other_choice(wanted, other, text):
    for form in (rf"\text{{({wanted}) }}{text}", f"{wanted}) {text}", rf"\textbf{{{wanted}}}. {text}", f"{wanted}: {text}"):
        assert credits(form, wanted)
        assert credits(form, other) == (other == wanted)
        assert not credits(rf"{form}, \text{{({other}) }}7", wanted)
        assert not credits(rf"{form} \text{{ or {other}}}", wanted)
        assert not credits(rf"\text{{not }}{form}", wanted)


@pytest.mark.parametrize("gold", ["x^2", r"\sin x", r"\frac{x^3}{3}-x", r"e^{2x}"])
@pytest.mark.parametrize("name", ["c", "K", "k", "C_1", "c_1"])
def test_a_constant_of_integration_has_any_usual_name(gold, name):
    assert credits(f"{gold}+{name}", f"{gold}+C")
    assert credits(f"{name}+{gold}", f"y={gold}+C")
    assert not credits(f"{gold}+{name}x", f"{gold}+C")
    assert not credits(f"{gold}+{name}+1", f"{gold}+n")
    assert not credits(gold, f"{gold}+C")
    assert not credits(f"{gold}+{name}", gold)
