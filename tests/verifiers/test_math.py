"""The math verifier: what it credits, what it refuses, and that a hang costs one verdict."""

import asyncio
import copy
import json
import pickle
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from slow_worker import HANG

from agon_env.verifiers import MathVerifier, Verdict
from agon_env.verifiers import pool as pools
from agon_env.verifiers.extraction import extract_answer
from agon_env.verifiers.pool import shared_pool

VERIFIER = MathVerifier()

EQUAL = [
    # (gold, answer)
    ("17", "017"),
    ("2500000", "2,500,000"),
    ("2500000", r"2\,500\,000"),
    ("2500000", r"2.5 \times 10^{6}"),
    (r"\frac{5}{2}", "2 1/2"),
    (r"-3\frac{1}{4}", r"-\frac{13}{4}"),
    (r"\frac{7}{8}", "0.875"),
    (r"0.\overline{6}", r"\dfrac{2}{3}"),
    (r"\frac{3}{5}", r"{3 \over 5}"),
    ("6", r"3 \cdot 2 = 6"),
    ("9", "n = 9"),
    ("720", "6!"),
    (r"40\%", r"40\text{ percent}"),
    ("12", r"12\text{ cm}"),
    ("19.5", r"\$19.50"),
    (r"\sqrt{8}", r"2\sqrt{2}"),
    (r"\frac{1}{\sqrt{5}}", "sqrt(5)/5"),
    (r"\log_{3} 7", r"\frac{\ln 7}{\ln 3}"),
    (r"e^{\frac{5}{2}}", "e^{2.5}"),
    (r"\binom{n}{2}", r"\frac{n(n-1)}{2}"),
    ("(a+b)^2", "a^2+2ab+b^2"),
    (r"1-\cos^2 t", r"\sin^2 t"),
    (r"\{2,3,5\}", r"\{5,2,3\}"),
    (r"\pm 4", "4, -4"),
    (r"2 \pm \sqrt{3}", r"2-\sqrt{3} \text{ or } 2+\sqrt{3}"),
    (r"x=1 \text{ or } x=-3", r"x=-3 \text{ or } x=1"),
    ("0<t<4", "(0,4)"),
    (r"x \ge 7", r"7 \le x"),
    ("3x-6y=12", "x-2y-4=0"),
    (r"\mathbb{R}", r"(-\infty, \infty)"),
    (r"\begin{pmatrix}1&0\\0&\frac{1}{2}\end{pmatrix}", r"\begin{bmatrix}1&0\\0&0.5\\\end{bmatrix}"),
    ("(3,4)", r"\left(3,\,4\right)"),
    ("Yes", r"\text{yes}."),
    ("C", r"\textbf{(C)}"),
    (r"S_3 \times \mathbb{Z}_2", r"S_3\times\mathbb{Z}_{2}"),
    ("9^{9^{9}}", "9^{9^{9}}"),
    (r"\max\{1, |x|\}", r"\max(|x|, 1)"),
    ("12", "१२"),  # digits of any script have their value
    ("2500000", "２,５００,０００"),
]

DIFFERENT = [
    ("24", "4"),
    ("24", "724"),
    ("5", "4, 5, 6"),
    ("5", r"4 \le x \le 6"),
    ("5", r"5 \pm 1"),
    ("5", r"\text{not } 5"),
    ("5", r"\ge 5"),
    ("5", "4 = 5"),
    ("5", "x = 3 = 5"),
    ("5", "5!"),
    ("5", "5x"),
    ("5", "(lambda: 5)()"),
    ("5", r"\text{nan}"),
    ("5", r"\frac{5}{0}"),
    ("5", r"9^{9^{9}}"),
    ("5", "9" * 900),
    ("5", r"\prod_{k=1}^{10^{9}} k"),
    ("1", r"\text{True}"),
    ("0", r"\text{False}"),
    ("0", "10^{-30}"),
    (r"\frac{1}{2^{80}}", r"\frac{1}{2^{81}}"),
    ("123456789012345671", "123456789012345672"),
    ("2^{5000}", "2^{5000}+1"),
    (r"\sqrt{3}", "1.732"),
    (r"\pi", r"\pi + 10^{-90}"),
    (r"e^{\pi\sqrt{163}}", "262537412640768744"),
    ("1606", r"1\,505\,100"),
    ("12,34", "1234"),
    ("65_8", "658"),
    ("65_8", "65_9"),
    ("10:30", "1:30"),
    (r"\{1,2,3\}", r"\{1,2\}"),
    ("(1,2)", "(2,1)"),
    ("[0,2)", "[0,2]"),
    ("x>3", r"x \ge 3"),
    ("x>3", "x<3"),
    (r"\pm 4", "4"),
    ("x^2+y^2=9", "x^2+y^2=3"),
    ("x=5", "2x=10"),
    ("x=5", "y=5"),
    ("a^2+1", "b^2+1"),
    ("N", "n"),
    ("E", "e"),
    ("a_{12}", "a_{21}"),
    ("stop", "pots"),
    ("No", "on"),
    ("x", r"\sqrt{x^2}"),
    ("2-i", "2+i"),
    (r"\infty", r"-\infty"),
    (r"\max\{1, x\}", r"\min\{1, x\}"),
    (r"15\text{ cm}", r"15\text{ m}"),
    ("60", "60^2"),
    (r"\int_0^1 x\,dx", r"\frac{1}{2}"),
    (r"\mathbb{Z}_{12}", r"\mathbb{Z}_{21}"),
    (r"\text{see the figure}", "3"),
]


def repr_start(value):
    return repr(value)[:12]


def boxed(answer):
    return f"So it is $\\boxed{{{answer}}}$."


@pytest.mark.parametrize(("gold", "answer"), EQUAL)
def test_credits_the_same_answer_in_another_form(gold, answer):
    assert VERIFIER.score(boxed(answer), gold) == Verdict(1.0, answer, "equal")
    assert VERIFIER.score(boxed(gold), gold).score == 1.0


@pytest.mark.parametrize(("gold", "answer"), DIFFERENT)
def test_never_credits_another_answer(gold, answer):
    assert VERIFIER.score(boxed(answer), gold) == Verdict(0.0, answer, "different")


@pytest.mark.parametrize("code", ["open({path!r}, 'w')", "__import__('pathlib').Path({path!r}).touch()"])
def test_an_answer_is_never_run(tmp_path, code):
    path = tmp_path / "ran"
    for answer in (code.format(path=str(path)), rf"\sqrt{{2}} + {code.format(path=str(path))}"):
        assert VERIFIER.score(boxed(answer), r"\sqrt{8}").score in (0.0, None)
    assert not path.exists()


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        (r"First \boxed{1}, no: \boxed{2}.", "2"),
        (r"\boxed{\frac{1}{2}} is it", r"\frac{1}{2}"),
        (r"\boxed{\{1, 2\}}", r"\{1, 2\}"),
        (r"\boxed{\boxed{3}}", "3"),
        (r"\boxed{ \boxed{\fbox{3}} }", "3"),
        (r"\boxed{2 or \boxed{3}}", r"2 or \boxed{3}"),
        (r"\boxed{2} or \boxed{3}", r"2 \text{ or } 3"),
        (r"\boxed{2}, \boxed{3}", "2, 3"),
        (r"\boxed{2}, or rather \boxed{3}", "3"),
        (r"\boxed{2} \boxed{} \boxed{3}", "3"),
        (r"\boxed{2} \boxed{3} \boxed{2}", "3, 2"),
        (r"\boxed{\boxed{2}} \boxed{3 \boxed{4}}", r"\boxed{2}, 3 \boxed{4}"),
        ("\\boxed{2}\n\n\\boxed{3}", "3"),
        (r"\boxed{2 \boxed{3}", "3"),
        ("\\boxed{" * 3000 + "7" + "}" * 3000, "7"),
        (r"\boxed{1} <think>\boxed{1}</think> Yes.", None),
        ("My answer: 6. The right answer: 5", "5"),
        ("Final Answer: The final answer is $5$. I hope it is correct.", "$5$."),
        ("Answer: the answer is 5 or 6", "5 or 6"),
        (r"\boxed 7.", "7"),
        (r"So $\boxed7$.", "7"),
        (r"So $x = \boxed y$.", "y"),
        (r"$$\boxed\frac{1}{2}$$", r"\frac{1}{2}"),
        (r"$\boxed7x$", None),
        (r"Write it as \boxed a or so. Answer: 3", "3"),
        ("Answer:\n$$\n73\n$$\n", "$$\n73\n$$"),
        ("Answer: $$5$$ or 6", "$$5$$ or 6"),
        ("Answer:\n\\[\n\\frac{7}{2}\n\\]\nAs said, 9.", "\\[\n\\frac{7}{2}\n\\]"),
        ("Answer: $$ 5\nAnswer: 6", "6"),
        (r"\fbox{$8$}", "$8$"),
        (r"<think>\boxed{1}</think> so \boxed{2}", "2"),
        (r"<think>\boxed{1}</think> I do not know", None),
        (r"\boxed{1} <think> or \boxed{2}", "1"),
        (r"\boxed{5} and then \boxed{}", None),
        (r"\boxed{5} and then \boxed{6", None),
        (r"Put it within \boxed{}. Answer: 4", None),
        ("Final Answer: **73**", "73"),
        ("**Answer:** $204$", "$204$"),
        ("answer: 1\nAnswer: 2", "2"),
        ("**Final Answer:**\n\n$42$\n\nDone.", "$42$"),
        ("Answer:\n", None),
        (r"\boxed {42}", "42"),
        (r"\boxed{5} \\ hence \boxed{\text{so } \{6\}}", r"\text{so } \{6\}"),
        (r"<think>a</think><think>\boxed{1}</think>\boxed{2}", "2"),
        (r"<think>\boxed{", None),
        ("The answer is 5", None),
        ("It is 5", None),
        ("", None),
        (r"\boxed{" * 3000, None),
    ],
)
def test_extracts_the_last_box_or_answer_line(text, answer):
    assert extract_answer(text) == answer


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("{" * 4_000_000, None),
        (r"\boxed{}" * 500_000, None),
        (r"\boxed{" * 500_000, None),
        (r"\boxed{" + "{" * 4_000_000, None),
        (r"\boxed{1}" * 400_000 + r"\boxed{2}", "1, 2"),
        (r"\boxed{" + "x" * 4_000_000 + r"}\boxed{2}", "2"),
        (r"\boxed{5}" + "}" * 4_000_000, "5"),
        ("}" * 4_000_000 + r"\boxed{{5}}", "{5}"),
        ("\\" * 4_000_000 + r"boxed{5}", None),
    ],
    ids=repr_start,
)
def test_huge_texts_are_read_at_once(text, answer):
    start = time.process_time()
    assert extract_answer(text) == answer
    assert time.process_time() - start < 1


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        (r"{{\boxed{1}}} \boxed{{{2}}}", "{{2}}"),
        (r"\boxed{{1} \boxed{2}}", r"{1} \boxed{2}"),
        (r"\boxed{{1 \boxed{2}}}", r"{1 \boxed{2}}"),
        (r"}}\boxed{1 \boxed{2}}}}", r"1 \boxed{2}"),
        (r"\boxed{1 \\boxed{2}}", r"1 \\boxed{2}"),
        (r"\boxed{{1 \boxed{2}", "2"),
        (r"\boxed{1} {{ \\boxed{2} }}", "1"),
    ],
)
def test_boxes_are_told_from_other_braces(text, answer):
    assert extract_answer(text) == answer


def test_missing_things_have_their_own_reasons():
    assert VERIFIER.score("no idea", "3") == Verdict(0.0, None, "no answer")
    assert VERIFIER.score(boxed("3"), " ") == Verdict(0.0, "3", "no gold")
    assert VERIFIER.score(boxed("1" * 2000), "1").reason == "too long"
    assert VERIFIER.score(boxed("1"), r"\text{" * 4000).reason == "too long"


@pytest.mark.parametrize("tolerance", ["..", "-", "--1", "e", "-0.5", "1e999999999", "1e-999999999", "nan", "inf", "٣"])
def test_a_gold_whose_tolerance_is_no_number_is_met_by_nothing(tolerance):
    assert VERIFIER.score(boxed("5"), rf"5 \tolerance{{{tolerance}}}") == Verdict(0.0, "5", "different")


@pytest.mark.parametrize(
    ("impossible", "fine"),
    [
        (r"\max(i, 2)", r"\sqrt{2}"),
        (r"\lfloor e^{1000} \rfloor", r"\pi"),
        (r"\zeta(1 + 10^{-9})", "7"),
        (r"x + \max(i, 2)", r"\sqrt{x}"),
    ],
)
def test_what_cannot_be_worked_out_is_no_answer_and_as_a_gold_an_error(impossible, fine):
    assert VERIFIER.score(boxed(impossible), impossible) == Verdict(1.0, impossible, "equal")
    assert VERIFIER.score(boxed(impossible), fine) == Verdict(0.0, impossible, "different")
    assert VERIFIER.score(boxed(fine), impossible) == Verdict(None, fine, "error")


@pytest.fixture
def slow_workers(monkeypatch):
    monkeypatch.setitem(pools._pools, pools._MATH, pools.WorkerPool(2, "slow_worker"))
    yield
    shared_pool().close()


def test_a_hang_costs_one_verdict(slow_workers):
    impatient = MathVerifier(deadline=1.0)
    golds = ["x_{hang}", r"\sqrt{5}", r"2\sqrt{2}", "4"]
    answers = [HANG, r"5/\sqrt{5}", r"\sqrt{8}", "2^2"]
    verdicts = impatient.score_many([(boxed(a), gold) for a, gold in zip(answers, golds, strict=True)])
    assert [(verdict.score, verdict.reason) for verdict in verdicts] == [(None, "timeout")] + [(1.0, "equal")] * 3


def test_the_deadline_is_for_a_whole_verdict_and_spares_the_worker_start(slow_workers):
    golds = ", ".join(rf"\sqrt{{{n}}}" for n in (2, 3, 5, 6, 7))
    answers = ", ".join(rf"\frac{{{n}}}{{\sqrt{{{n}}}}}" for n in (7, 6, 5, 3, 2))
    assert MathVerifier(deadline=2.0).score(boxed(answers), golds).score == 1.0
    start = time.monotonic()
    hangs = ", ".join(rf"{n}x_{{hang}}" for n in (2, 3, 5, 6, 7))
    assert MathVerifier(deadline=0.5).score(boxed(hangs), hangs.replace("x", "-x")).reason == "timeout"
    assert time.monotonic() - start < 30


def test_works_from_threads_and_from_a_running_loop():
    pairs = [(boxed(rf"\sqrt{{{4 * n}}}"), rf"2\sqrt{{{n}}}") for n in (2, 3, 5, 6, 7, 10)]
    with ThreadPoolExecutor(4) as threads:
        assert [v.score for v in threads.map(lambda pair: VERIFIER.score(*pair), pairs)] == [1.0] * len(pairs)

    async def main():
        here = VERIFIER.score(*pairs[0])
        return [here, *await asyncio.gather(*(asyncio.to_thread(VERIFIER.score, *pair) for pair in pairs))]

    assert all(verdict.score == 1.0 for verdict in asyncio.run(main()))


def test_score_many_keeps_the_order_and_repeats():
    pairs = [(boxed("1"), "1"), (boxed(r"\sqrt{4}"), "2"), (boxed("1"), "2"), (boxed("1"), "1")]
    assert [verdict.score for verdict in VERIFIER.score_many(pairs)] == [1.0, 1.0, 0.0, 1.0]
    assert VERIFIER.score_many([]) == []


def test_survives_copies():
    verifier = MathVerifier(deadline=2.5)
    for copied in (copy.deepcopy(verifier), pickle.loads(pickle.dumps(verifier))):
        assert copied == verifier
        assert copied.score(boxed(r"\sqrt{9}"), "3").score == 1.0


PIECES = [*"\\{}()[]$^_=<>+-*/!|,.: 0719axeEfI", r"\frac", r"\sqrt", r"\text{", r"\boxed{", r"\pm", r"\cup", "²", "−", "\udc80"]


@settings(max_examples=200, deadline=None)
@given(st.lists(st.sampled_from(PIECES), max_size=20).map("".join))
def test_any_text_gets_a_verdict(text):
    impatient = MathVerifier(deadline=0.5)
    assert impatient.score(boxed(text), "7").score in (0.0, 1.0, None)
    assert impatient.score(boxed("7"), text).score in (0.0, 1.0, None)
    assert impatient.score(text, text).score in (0.0, 1.0, None)


HOSTILE = [
    *PIECES, "1 ", "1 000 ", "1,", "a ", "x<", "a=1,", " and ", r"\text{ or }", r"\pmod ", r"\cup ", r"\{", r"\mathrm{m}",
    "cm ", r"\frac{1}{", r"{\over", r"\begin{array}{c", "&", "\\\\", "**", r"\left",
    r"\equiv ", "(mod ", r"\approx ", "^T", r"\in\mathbb{Z}",
    r"0.\overline{", "!", "--", "_{",
    r"5\text{m}", r"\cdot\text{s}^{-1}", "^2 ", r"\mathrm{m^", "x>1,", r"x\ne 1,", "|x|<", r"\setminus\{1\}", ". ", "f(",
    "f(x)", "dx", r"\mathbf{a}\times", r"\begin{cases}1,\\", "3 hours ", "a=", "|",
]  # fmt: skip


@pytest.mark.parametrize("piece", HOSTILE)
def test_no_answer_is_slow_to_read(piece):
    impatient = MathVerifier(deadline=0.5)
    answer = (piece * 1000)[:990]
    start = time.process_time()
    for gold in ("7", "x=2, y=3", "[2,5)", answer[:500]):
        impatient.score(f"answer: {answer}", gold)
    assert time.process_time() - start < 2


CASES = Path(__file__).parents[3] / "shared" / "cases" / "math_cases.jsonl"


@pytest.mark.skipif(not CASES.exists(), reason="the shared cases are not here")
def test_shared_cases_are_all_judged_as_expected():
    cases = [json.loads(line) for line in CASES.read_text(encoding="utf-8").split("\n") if line]
    clear = [case for case in cases if not case.get("doubtful")]
    verdicts = VERIFIER.score_many([(case["completion"], case["gold"]) for case in clear])
    credited = {case["id"]: verdict.score == 1.0 for case, verdict in zip(clear, verdicts, strict=True)}
    assert not [case["id"] for case in clear if credited[case["id"]] and not case["expected"]]
    assert not [case["id"] for case in clear if case["expected"] and not credited[case["id"]]]
