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
from agents.embedded.tokenizer import build_tokenizer
from agents.embedded.writer import Habits, Writer, draw_beliefs
from agon_env.tasks.arithmetic import Arithmetic, make_problem


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


def test_it_reasons_about_short_chains(model, tokenizer):
    problems = [Arithmetic(split="test", difficulty=2)[i] for i in range(40)]
    task = Arithmetic(split="test")
    prompts = []
    for i in range(len(problems)):
        env = agon_env.make("ArithmeticSolo-v0", split="test", difficulty=2)
        env.reset(options={"index": i})
        prompts.append(make.render(env, tokenizer))
    answers = [text for text, _ in make.sample(model, tokenizer, prompts, temperature=0)]
    scores = [task.verifier.score(text, problem.answer).score for text, problem in zip(answers, problems, strict=True)]
    assert sum(scores) >= 24  # guessing gets 4


def test_on_the_default_dial_there_is_room_to_learn_and_something_to_learn_from(model, tokenizer):
    torch.manual_seed(0)
    figures = make.evaluate(model, tokenizer, problems=128)
    assert 0.1 < figures["alone"] < 0.45
    assert 0.1 < figures["with draft"] < 0.45
    assert 0.03 < figures["fix rate"] < 0.4
    assert figures["tokens"] < 80


def test_the_dial_reaches_from_easy_to_impossible(model, tokenizer):
    torch.manual_seed(0)
    easy, impossible = (make.evaluate(model, tokenizer, problems=96, difficulty=d)["alone"] for d in (1, 26))
    assert easy > 0.35  # about a half: the other half of its answers are guesses
    assert impossible < 0.22  # a tenth, as by guessing


def test_the_maker_writes_a_folder_that_loads(tmp_path: Path):
    settings = make.Make(
        output=tmp_path,
        hidden_size=32,
        heads=2,
        layers=1,
        intermediate_size=32,
        reasoning_steps=2,
        mixture_steps=2,
        batch_size=2,
    )
    settings.evaluate = 4
    make.main(settings)
    model = AutoModelForCausalLM.from_pretrained(tmp_path)
    tokenizer = AutoTokenizer.from_pretrained(tmp_path)
    assert model.config.hidden_size == 32
    assert len(tokenizer) == model.config.vocab_size
    ids = tokenizer("Start with 4", return_tensors="pt")["input_ids"]
    assert torch.isfinite(model(ids).logits).all()


def test_batches_hold_both_roles_and_train_the_answer_alone(tmp_path: Path):
    tokenizer = build_tokenizer()
    settings = make.Make(output=tmp_path, batch_size=8)
    rng = np.random.default_rng(0)
    writer = Writer(draw_beliefs(0.2, rng), Habits())
    ids_BT, is_target_BT = next(make.batches(settings, tokenizer, writer, rng, habitual=True))
    prompts = [tokenizer.decode(ids[~target].tolist()) for ids, target in zip(ids_BT, is_target_BT, strict=True)]
    answers = [tokenizer.decode(ids[target].tolist()) for ids, target in zip(ids_BT, is_target_BT, strict=True)]
    assert all("<|im_start|>assistant\n" in prompt for prompt in prompts)
    assert all(answer.endswith("}<|im_end|>") and "\\boxed{" in answer for answer in answers)


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
