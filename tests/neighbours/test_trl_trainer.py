"""TRL's GRPOTrainer trains one seat of a contest against frozen rivals."""

from __future__ import annotations

import importlib.resources
import itertools

import pytest

trl = pytest.importorskip("trl", reason="needs TRL: pip install 'agon-env[trl]'")
pytest.importorskip("datasets", reason="needs datasets: pip install 'agon-env[trl]'")

import torch  # noqa: E402
from small_games import Nim  # noqa: E402
from transformers import AutoModelForCausalLM, AutoTokenizer  # noqa: E402

import agents  # noqa: E402
import agon_env  # noqa: E402
from agents import embedded  # noqa: E402
from agon_env.errors import Error  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture
def model():
    return AutoModelForCausalLM.from_pretrained(embedded.path(), dtype=torch.float32)


@pytest.fixture
def tokenizer():
    return AutoTokenizer.from_pretrained(embedded.path())


def config(folder, **options):
    return trl.GRPOConfig(
        output_dir=str(folder),
        max_steps=2,
        per_device_train_batch_size=4,
        num_generations=4,
        gradient_accumulation_steps=1,
        max_completion_length=24,
        learning_rate=1e-3,
        report_to=[],
        save_strategy="no",
        logging_steps=1,
        use_cpu=True,
        bf16=False,
        disable_tqdm=True,
        **options,
    )


class Counting:
    """A frozen rival that keeps what it was asked."""

    def __init__(self, player):
        self.player, self.asked = player, []

    def act(self, observations):
        self.asked += observations
        return self.player.act(observations)

    def __call__(self, observation):
        return self.act([observation])[0]


def two_steps(trainer):
    before = [parameter.clone() for parameter in trainer.model.parameters()]
    trainer.train()
    assert trainer.state.global_step == 2
    return any(not torch.equal(now, then) for now, then in zip(trainer.model.parameters(), before, strict=True))


class Seen:
    """A reward function in front of another, which keeps what both were given and gave."""

    __name__ = "seen"

    def __init__(self, reward):
        self.reward, self.calls = reward, []

    def __call__(self, **given):
        self.calls.append((given, self.reward(**given)))
        return self.calls[-1][1]


def test_rollout_func_trains_the_challenger_against_a_frozen_drafter(tmp_path, model, tokenizer):
    drafter = Counting(agents.make("embedded"))
    frozen = [parameter.clone() for parameter in drafter.player.base.model.parameters()]
    duel = agon_env.to_trl(agon_env.make("ArithmeticDuel-v0", reward="competitive"), "challenger", rivals=drafter)
    reward = Seen(duel.reward)
    trainer = trl.GRPOTrainer(
        model,
        reward_funcs=reward,
        rollout_func=duel.rollout_func,
        train_dataset=duel.prompts(8, seed=5),
        processing_class=tokenizer,
        args=config(tmp_path),
    )
    two_steps(trainer)
    assert len(drafter.asked) == 2  # one draft for each group of four answers
    assert {observation.role for observation in drafter.asked} == {"drafter"}
    for parameter, then in zip(drafter.player.base.model.parameters(), frozen, strict=True):
        assert torch.equal(parameter, then)
    for given, paid in reward.calls:
        assert paid == given["contest_reward"]
        assert all(0.0 <= value <= 1.5 for value in paid)
        contest = duel.start(int(given["prompts"][0][0]["content"]))
        for completion, value in zip(given["completions"], paid, strict=True):
            again = contest.fork()
            again.step(completion[0]["content"])
            assert again.outcome.scores["bob"] == float(value > 0)


def test_what_is_paid_changes_the_model(tmp_path, model, tokenizer):
    solo = agon_env.to_trl(agon_env.make("ArithmeticSolo-v0"))
    texts = iter(range(1000))
    trainer = trl.GRPOTrainer(
        model,
        reward_funcs=lambda completions, **_: [float(next(texts) % 2) for _ in completions],
        rollout_func=solo.rollout_func,
        train_dataset=solo.prompts(8),
        processing_class=tokenizer,
        args=config(tmp_path),
    )
    assert two_steps(trainer)


def test_environment_factory_trains_it_too(tmp_path, model, tokenizer):
    tokenizer.chat_template = (importlib.resources.files("trl") / "chat_templates" / "qwen3.jinja").read_text(encoding="utf-8")
    duel = agon_env.to_trl(agon_env.make("ArithmeticDuel-v0"), "challenger", rivals=lambda observation: "my draft: 7")
    reward = Seen(duel.reward)
    trainer = trl.GRPOTrainer(
        model,
        reward_funcs=reward,
        environment_factory=duel.environment,
        train_dataset=duel.seeds(8),
        processing_class=tokenizer,
        args=config(tmp_path),
    )
    two_steps(trainer)
    given, paid = reward.calls[0]
    assert "> my draft: 7" in given["prompts"][0][-1]["content"]
    assert len(paid) == 4
    assert all(env._contest.done for env in given["environments"])


# --- what the trainer is given ----------------------------------------------------------------------


class Trainer:
    """As much of a trainer as a rollout needs; its model says what it is told to."""

    chat_template = None
    chat_template_kwargs: dict[str, object] = {}  # noqa: RUF012

    def __init__(self, tokenizer, says, logprobs=True):
        self.processing_class, self.says, self.knows = tokenizer, says, logprobs
        self.eos_token_ids = [tokenizer.eos_token_id]
        self.read = []

    def _generate_single_turn(self, prompt_ids, images, multimodal_fields, num_generations):
        self.read += [self.processing_class.decode(ids) for ids in prompt_ids]
        ids = [[*self.processing_class(self.says).input_ids, self.processing_class.eos_token_id] for _ in prompt_ids]
        return ids, [[-0.5] * len(one) for one in ids] if self.knows else None


def row(seed):
    return [{"role": "user", "content": str(seed)}]


def test_a_rollout_of_several_turns_masks_what_the_contest_says(tokenizer):
    game = agon_env.to_trl(Nim(), rivals=lambda observation: "1")
    trainer = Trainer(tokenizer, "2")
    rollouts = game.rollout_func([row(3), row(3)], trainer)
    assert rollouts["prompt_ids"][0] == rollouts["prompt_ids"][1]
    for ids, mask, logprobs in zip(rollouts["completion_ids"], rollouts["env_mask"], rollouts["logprobs"], strict=True):
        assert len(ids) == len(mask) == len(logprobs)
        own = tokenizer.decode([token for token, mine in zip(ids, mask, strict=True) if mine], skip_special_tokens=True)
        assert set(own) == {"2"}
        assert len(own) >= 3
        assert {(mine, logprob) for mine, logprob in zip(mask, logprobs, strict=True)} == {(1, -0.5), (0, 0.0)}
    last = trainer.read[-1]
    assert last.count("<|im_start|>assistant") == len(own) == len(trainer.read) // 2
    stones = [int(part.split()[-1]) for part in last.split(" stones are left.")[:-1]]
    assert [before - after for before, after in itertools.pairwise(stones)] == [3] * (len(own) - 1)
    assert last.endswith("<|im_end|>\n<|im_start|>assistant\n")


def test_a_rivals_half_character_does_no_harm(tokenizer):
    duel = agon_env.to_trl(agon_env.make("ArithmeticDuel-v0"), "challenger", rivals=lambda observation: "half \ud800")
    trainer = Trainer(tokenizer, "x")
    duel.rollout_func([row(0)], trainer)
    assert "> half \ufffd" in trainer.read[0]
    assert "> half \ufffd" in duel.environment().reset(seed=0)


def test_a_template_that_rewrites_earlier_turns_is_refused(tokenizer):
    tokenizer.chat_template = "{{ messages | length }} turns: {{ messages[-1].content }}<|im_end|>"
    game = agon_env.to_trl(Nim(), rivals=lambda observation: "1")
    with pytest.raises(Error, match="rewrites earlier turns"):
        game.rollout_func([row(3)], Trainer(tokenizer, "2"))


def test_without_logprobs_there_are_none(tokenizer):
    solo = agon_env.to_trl(agon_env.make("ArithmeticSolo-v0"))
    rollouts = solo.rollout_func([row(0)], Trainer(tokenizer, "x", logprobs=False))
    assert rollouts["logprobs"] is None
    assert rollouts["contest_reward"] == [0.0]


def test_a_group_meets_one_draft_and_another_group_another(tokenizer):
    drafts = iter("abcdefgh")
    duel = agon_env.to_trl(agon_env.make("ArithmeticDuel-v0"), "challenger", rivals=lambda observation: f"draft {next(drafts)}")
    trainer = Trainer(tokenizer, "x")
    duel.rollout_func([row(0), row(0), row(1), row(1)], trainer)
    assert ["draft a" in text for text in trainer.read] == [True, True, False, False]
    assert ["draft b" in text for text in trainer.read] == [False, False, True, True]


def test_a_contest_that_a_rival_ends_at_once_is_paid_and_trains_nothing(tokenizer):
    game = agon_env.to_trl(Nim(), "second", rivals=lambda observation: "nonsense")
    trainer = Trainer(tokenizer, "x")
    rollouts = game.rollout_func([row(0)], trainer)
    assert not trainer.read
    assert rollouts["env_mask"] == [[0]]
    assert rollouts["contest_reward"] == [1.0]


def test_the_tool_plays_moves_and_the_last_text_is_the_last_move():
    game = agon_env.to_trl(Nim(stones=3), rivals=lambda observation: "1")
    completions = [[{"role": "assistant", "content": "2"}]]
    env = game.environment()
    first = env.reset(seed=0, prompt=None)
    assert env.reset(seed=0) == first == "Nim\n\n5 stones are left."
    assert env.move("2") == "Nim\n\n2 stones are left."
    assert game.reward(completions=completions, environments=[env]) == [1.0]
    assert env.move("2") == "The contest is over: completed."
    env.reset(seed=0)
    assert game.reward(completions=completions, environments=[env]) == [-1.0]  # it stopped before the end


def test_what_is_missing_is_said():
    with pytest.raises(Error, match="rivals="):
        agon_env.to_trl(agon_env.make("ArithmeticDuel-v0"))
    with pytest.raises(Error, match="no seat 'judge'"):
        agon_env.to_trl(agon_env.make("ArithmeticDuel-v0"), "judge", rivals=str)
    solo = agon_env.to_trl(agon_env.make("ArithmeticSolo-v0"))
    with pytest.raises(Error, match="rollout_func="):
        solo.reward(completions=["x"])
    with pytest.raises(Error, match="reset"):
        solo.environment().move("x")


@pytest.mark.slow
def test_every_contest_trains_two_steps(tmp_path, model, tokenizer, contest_id):
    game = agon_env.to_trl(agon_env.make(contest_id), rivals=lambda observation: f"{observation.role} says 7")
    reward = Seen(game.reward)
    two_steps(
        trl.GRPOTrainer(
            model,
            reward_funcs=reward,
            rollout_func=game.rollout_func,
            train_dataset=game.prompts(8),
            processing_class=tokenizer,
            args=config(tmp_path),
        )
    )
    assert [len(paid) for _, paid in reward.calls] == [4, 4]
