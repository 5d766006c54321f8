"""The embedded model: an ordinary folder that can play the default duel, neither too badly nor too well."""

from functools import cache
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st
from transformers import AutoModelForCausalLM, AutoTokenizer, Qwen3ForCausalLM

import agon_env
from agents import embedded
from agents.embedded import make
from agents.embedded.lessons import Lesson, Syllabus, batches, draw_turn, render
from agents.embedded.searcher import Searcher, SearchHabits
from agents.embedded.tokenizer import build_tokenizer
from agents.embedded.writer import Habits, Writer, draw_beliefs
from agon_env.tasks.arithmetic import START, Arithmetic, make_problem, read_steps
from agon_env.tasks.chain_search import ChainSearch, make_chain_search, write_tries


@pytest.fixture(scope="module")
def model():
    torch.set_num_threads(1)
    return AutoModelForCausalLM.from_pretrained(embedded.path()).eval()


@cache
def shipped_tokenizer():
    return AutoTokenizer.from_pretrained(embedded.path())


@pytest.fixture
def tokenizer():
    return shipped_tokenizer()


def prompt_ids(tokenizer, env) -> list[int]:
    return tokenizer.apply_chat_template(list(env.observe().messages), add_generation_prompt=True)["input_ids"]


def test_it_is_a_small_qwen3(model):
    assert isinstance(model, Qwen3ForCausalLM)
    assert 300_000 <= model.num_parameters() <= 1_500_000
    assert sum(file.stat().st_size for file in embedded.path().iterdir()) < 8_000_000
    assert all(torch.isfinite(parameter).all() for parameter in model.parameters())
    assert {parameter.dtype for parameter in model.parameters()} == {torch.float32}
    assert model.config.max_position_embeddings >= 1024


def test_its_special_tokens_are_distinct_and_known_to_the_model(model, tokenizer):
    ids = tokenizer.convert_tokens_to_ids(["<|im_start|>", "<|im_end|>", "<|endoftext|>"])
    assert len(set(ids)) == 3
    assert ids[1:] == [tokenizer.eos_token_id, tokenizer.pad_token_id]
    assert (model.config.eos_token_id, model.config.pad_token_id) == (tokenizer.eos_token_id, tokenizer.pad_token_id)
    assert model.generation_config.eos_token_id == tokenizer.eos_token_id
    assert model.config.vocab_size == len(tokenizer)


@example("日本 🦉 \u2028 \x00 \x85 user\n\n\n  a*3 \\boxed{{}} Ġ Ċ <|im_end|> é e\u0301")
@given(st.text())
def test_any_unicode_survives(text):
    assert shipped_tokenizer().decode(shipped_tokenizer()(text)["input_ids"]) == text


def test_the_chat_template_is_chatml(tokenizer):
    messages = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi"}]
    text = tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
    assert text == "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n"
    assert tokenizer.apply_chat_template(messages, tokenize=False) == text.removesuffix("<|im_start|>assistant\n")


def test_the_sentences_of_the_prompts_are_single_tokens(tokenizer):
    """If this fails, the wording of a prompt has changed: make the model again, `python -m agents.embedded.make`."""
    assert tokenizer.get_vocab() == build_tokenizer().get_vocab()
    env = agon_env.make("ArithmeticDuel-v0", difficulty=10)
    env.reset(seed=0)
    assert len(prompt_ids(tokenizer, env)) <= 13 + 2 * 10
    env.step(env.solution("drafter"))
    assert len(prompt_ids(tokenizer, env)) <= 13 + 2 * 10 + 14 + 4 * 10
    env = agon_env.make("ChainSearchDuel-v0", difficulty=4)
    env.reset(seed=0)
    assert len(prompt_ids(tokenizer, env)) <= 14 + 2 * 4
    env.step(env.solution("drafter"))
    assert len(prompt_ids(tokenizer, env)) <= 14 + 2 * 4 + 14 + 4 * 4


def test_it_reasons_about_short_chains(model, tokenizer):
    problems = [Arithmetic(split="test", difficulty=2)[i] for i in range(40)]
    task = Arithmetic(split="test")
    prompts = []
    for i in range(len(problems)):
        env = agon_env.make("ArithmeticSolo-v0", split="test", difficulty=2)
        env.reset(options={"index": i})
        prompts.append(render(env, tokenizer))
    answers = [text for text, _ in make.sample(model, tokenizer, prompts, temperature=0)]
    scores = [task.verifier.score(text, problem.answer).score for text, problem in zip(answers, problems, strict=True)]
    assert sum(scores) >= 24  # guessing gets 4


def test_on_the_default_dial_there_is_room_to_learn_and_something_to_learn_from(model, tokenizer):
    torch.manual_seed(0)
    figures = make.evaluate(model, tokenizer, Arithmetic(split="test"), problems=128)
    assert 0.1 < figures["alone"] < 0.45
    assert 0.1 < figures["with draft"] < 0.45
    assert 0.03 < figures["fix rate"] < 0.4
    assert figures["tokens"] < 80


def test_it_searches_and_checks(model, tokenizer):
    torch.manual_seed(0)
    figures = make.evaluate(model, tokenizer, ChainSearch(split="test"), problems=128)
    assert 0.08 < figures["alone"] < 0.35
    assert 0.1 < figures["with draft"] < 0.45
    passed = {}
    for right in (True, False):
        contests = []
        for i in range(96):
            contest = agon_env.make("ChainSearchDuel-v0", split="test")
            contest.reset(options={"index": i})
            answer = int(contest.problem.answer)
            contest.step(rf"\boxed{{{answer if right else (answer + 1 + i % 9) % 10}}}")
            contests.append(contest)
        texts = [text for text, _ in make.sample(model, tokenizer, [render(contest, tokenizer) for contest in contests])]
        checks = [text for text in texts if text.startswith("Check: ")]
        assert len(checks) > 15
        passed[right] = sum("; " not in text and "=0 " in text for text in checks) / len(checks)
    assert passed[True] > 0.5
    assert passed[False] < 0.15


def test_the_dial_reaches_from_easy_to_impossible(model, tokenizer):
    torch.manual_seed(0)
    easy, impossible = (
        make.evaluate(model, tokenizer, Arithmetic(split="test", difficulty=d), problems=96)["alone"] for d in (1, 26)
    )
    assert easy > 0.35  # about a half: the other half of its answers are guesses
    assert impossible < 0.22  # a tenth, as by guessing


def test_the_maker_writes_a_folder_that_loads(tmp_path: Path):
    settings = make.Make(
        output=tmp_path,
        hidden_size=32,
        heads=2,
        layers=1,
        intermediate_size=32,
        study_steps=2,
        practice_steps=2,
        batch_tokens=400,
    )
    settings.evaluate = 4
    make.main(settings)
    model = AutoModelForCausalLM.from_pretrained(tmp_path)
    tokenizer = AutoTokenizer.from_pretrained(tmp_path)
    assert model.config.hidden_size == 32
    assert len(tokenizer) == model.config.vocab_size
    ids = tokenizer("Start with 4", return_tensors="pt")["input_ids"]
    assert torch.isfinite(model(ids).logits).all()


SYLLABUS = Syllabus(draw_beliefs(0.2, np.random.default_rng(0)), seed=1)


def test_batches_train_the_answers_of_both_tasks_alone():
    tokenizer, rng = build_tokenizer(), np.random.default_rng(0)
    lessons = batches(lambda _: SYLLABUS.practice(), tokenizer, rng, tokens=2000)
    prompts, answers = [], []
    for _ in range(20):
        batch = next(lessons)
        assert batch.ids_BT.numel() <= 2000
        for ids, target in zip(batch.ids_BT, batch.is_target_BT, strict=True):
            answers.append(tokenizer.decode(ids[target].tolist()))
            prompts.append(tokenizer.decode(ids[~target & (ids != tokenizer.pad_token_id)].tolist()))
    assert all("<|im_start|>assistant\n" in prompt for prompt in prompts)
    assert all(answer.endswith("}<|im_end|>") and "\\boxed{" in answer for answer in answers)
    assert 0.3 < np.mean(["Start with ?" in prompt for prompt in prompts]) < 0.7
    assert 0.3 < np.mean(["A rival has answered." in prompt for prompt in prompts]) < 0.7


def test_studies_grow():
    first, last = SYLLABUS.study(0), SYLLABUS.study(10_000)
    assert [lesson.task.name for lesson in first] == ["arithmetic", "chain_search"]
    assert [lesson.task.difficulty for lesson in first] == [(1, 2), (1, 1)]
    assert [lesson.task.difficulty for lesson in last] == [(1, 14), (1, 5)]
    assert (first[1].author.habits.most, last[1].author.habits.most) == (1, SearchHabits().most)


def test_some_drafts_are_cut_off():
    tokenizer, rng = build_tokenizer(), np.random.default_rng(0)
    lesson = Lesson(ChainSearch(), Searcher({}), Searcher({}))
    prompts = [tokenizer.decode(draw_turn(lesson, tokenizer, rng).prompt) for _ in range(200)]
    drafts = [prompt for prompt in prompts if "A rival has answered." in prompt]
    cut = [draft for draft in drafts if "}\n\nCheck it" not in draft]
    assert 0.02 < len(cut) / len(drafts) < 0.35


def test_beliefs_are_false_and_leave_most_facts_alone():
    beliefs = draw_beliefs(0.2, np.random.default_rng(0))
    assert len(beliefs) == 42
    for (operation, operand, value), (_, false) in beliefs.items():
        assert false != {"+": value + operand, "-": value - operand, "*": value * operand}[operation] % 10


def test_a_writer_without_false_beliefs_is_always_right():
    task, writer, rng = Arithmetic(difficulty=(1, 14)), Writer({}, Habits()), np.random.default_rng(0)
    for i in range(20):
        assert writer.reason(task[i], rng) == task.solution(task[i])


def test_a_false_belief_is_held_with_its_chance():
    problem, rng = make_problem(1, [("+", 1)]), np.random.default_rng(0)
    writer = Writer({("+", 1, 1): (0.3, 7)}, Habits())
    texts = [writer.reason(problem, rng) for _ in range(1000)]
    assert set(texts) == {r"Start with 1 a+1=2 \boxed{2}", r"Start with 1 a+1=7 \boxed{7}"}
    assert sum("=7" in text for text in texts) == pytest.approx(300, abs=60)


def test_habits_are_kept():
    task, rng = Arithmetic(), np.random.default_rng(0)
    writer = Writer({}, Habits(reason=0.5, solve=0.5, copy=0.5))
    draft = r"It is \boxed{9}."
    alone = [writer.answer(task[0], None, rng) for _ in range(400)]
    after = [writer.answer(task[0], draft, rng) for _ in range(400)]
    assert 150 < alone.count(task.solution(task[0])) < 250
    assert 150 < after.count(r"\boxed{9}") < 250
    assert after.count(r"\boxed{9}") + after.count(task.solution(task[0])) == 400


STEPS = [("*", 7), ("-", 9), ("+", 8)]
PROBLEM = make_chain_search(STEPS)
"""3 leads to 0: 3 · 7 = 1, 1 − 9 = 2, 2 + 8 = 0."""


def digits_of(text: str) -> list[int]:
    return [int(part[0]) for part in text.split(START)[1:]]


def test_a_search_without_false_beliefs_or_haste_ends_with_a_right_answer():
    task, rng = ChainSearch(), np.random.default_rng(0)
    searcher = Searcher({}, SearchHabits(search=1, careful=1, give_up=0, most=10))
    for i in range(20):
        text = searcher.answer(task[i], None, rng)
        tried = digits_of(text)
        assert len(set(tried)) == len(tried)
        assert text == write_tries(tried, read_steps(task[i].id))
        assert task.verifier.score(text, task[i].answer).score == 1.0


def test_a_careless_search_tries_digits_again():
    rng, searcher = np.random.default_rng(0), Searcher({}, SearchHabits(search=1, careful=0, give_up=0, most=10))
    tried = [digits_of(searcher.answer(PROBLEM, None, rng)) for _ in range(50)]
    assert any(len(set(digits)) < len(digits) for digits in tried)


def test_who_never_gives_up_stops_after_the_most_tries():
    rng, searcher = np.random.default_rng(0), Searcher({}, SearchHabits(search=1, careful=1, give_up=0, most=3))
    tried = [len(digits_of(searcher.answer(PROBLEM, None, rng))) for _ in range(50)]
    assert max(tried) == 3


def test_a_check_repeats_a_right_claim_and_leaves_a_wrong_one():
    rng, searcher = np.random.default_rng(0), Searcher({}, SearchHabits(search=1, careful=1, give_up=0, most=10))
    assert searcher.check(PROBLEM, 3, rng) == r"Check: Start with 3 a*7=1 b-9=2 c+8=0 \boxed{3}"
    wrong = searcher.check(PROBLEM, 5, rng)
    assert wrong.startswith("Check: Start with 5 a*7=5 b-9=6 c+8=4; Start with ")
    assert wrong.endswith(r"=0 \boxed{3}")


def test_both_writers_hold_the_same_beliefs():
    rng, beliefs = np.random.default_rng(0), {("*", 7, 3): (0.3, 2)}
    checks = [Searcher(beliefs).check(PROBLEM, 3, rng) for _ in range(1000)]
    assert sum(text.startswith("Check: Start with 3 a*7=2 b-9=3 c+8=1; ") for text in checks) == pytest.approx(300, abs=60)
    chains = [Writer(beliefs, Habits()).reason(make_problem(3, STEPS), rng) for _ in range(1000)]
    assert chains.count(r"Start with 3 a*7=2 b-9=3 c+8=1 \boxed{1}") == pytest.approx(300, abs=60)


def test_habits_of_search_are_kept():
    rng, searcher = np.random.default_rng(0), Searcher({}, SearchHabits(search=0.5, copy=0.3, check=0.3))
    after = [searcher.answer(PROBLEM, r"I think \boxed{3}", rng) for _ in range(400)]
    assert 90 < after.count(r"\boxed{3}") < 170
    assert 80 < sum(text.startswith("Check: Start with 3 ") for text in after) < 160
    alone = [searcher.answer(PROBLEM, None, rng) for _ in range(400)]
    assert 150 < sum(text.startswith("\\boxed") for text in alone) < 250


def test_a_draft_without_an_answer_can_not_be_copied():
    rng, searcher = np.random.default_rng(0), Searcher({}, SearchHabits(search=1, copy=1, check=0))
    for draft in ("", "Start with 3 a*7=1", r"\boxed{}", r"\boxed{no}", r"\boxed{12}", r"\boxed{³}", r"\boxed{3"):
        assert searcher.answer(PROBLEM, draft, rng).startswith(START)
