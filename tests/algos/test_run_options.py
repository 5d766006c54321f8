"""Options of the loss and the reward that take effect between the contests and the learner, in a whole step."""

from pathlib import Path

import bandit
import numpy as np
import pytest
import torch

import agon_env
import algos.training.run as run_module
from agents.sampling import Completion
from agon_env.contest import Contest
from algos.evaluation.divergence import base_divergence, disagreement, policy_divergence, probe_rows
from algos.evaluation.scorecard import scorecard
from algos.learning.optim import OptimConfig
from algos.length_penalty import LengthPenalty
from algos.losses import LossConfig
from algos.playing.play import play
from algos.trainer import Run
from algos.types import Batch, Stats, Turn


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return bandit.save_model(tmp_path_factory.mktemp("model"))


def trained_batches(run: Run, monkeypatch: pytest.MonkeyPatch) -> list[Batch]:
    """Collect the batches that the learner is given."""
    batches: list[Batch] = []
    learner = run.learners["alice"]
    forward_backward = learner.forward_backward
    monkeypatch.setattr(learner, "forward_backward", lambda who, batch: batches.append(batch) or forward_backward(who, batch))
    return batches


def is_cut(completion: Completion | None) -> bool:
    return completion is not None and completion.finish_reason == "length"


def test_completions_that_were_cut_stay_in_the_baseline_and_out_of_the_update(
    model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with bandit.registered():
        options = {"env": "tests/Alone-v0", "max_tokens": 25}
        plain = Run.of(bandit.config(model, "grpo", **options))
        masked = Run.of(bandit.config(model, "grpo", loss=LossConfig(mask_truncated=True), **options))
        everything, whole = trained_batches(plain, monkeypatch), trained_batches(masked, monkeypatch)
        _, played = plain.advance()
        stats, _ = masked.advance()
    cut = {turn.completion.token_ids for turn in played.turns if is_cut(turn.completion)}
    assert 0 < len(cut) < len(played.turns)
    expected = [row for row in everything[0].rows if row.completion_ids not in cut]
    assert list(whole[0].rows) == expected  # the same advantages: the baseline knows of all
    assert 0 < len(expected) < len(everything[0].rows)
    assert stats["alice/rows"] == len(expected)


def test_length_is_paid_for_in_the_reward_and_logged_as_a_part_of_it(model: Path) -> None:
    with bandit.registered():
        penalty = LengthPenalty("linear", cost=0.01)
        run = Run.of(bandit.config(model, "grpo", env="tests/Alone-v0", max_tokens=5, length_penalty=penalty))
        stats, played = run.advance()
    lengths = [len(turn.completion.token_ids) for turn in played.turns if turn.completion is not None]
    assert stats["alice/reward_length"] == pytest.approx(-0.01 * sum(lengths) / len(lengths))
    assert stats["alice/reward"] == pytest.approx(stats["alice/reward_outcome"] + stats["alice/reward_length"])
    assert stats["alice/score_first"] == pytest.approx(stats["alice/reward_outcome"])  # the game does not know of it


def test_a_price_on_length_shortens_what_is_said(model: Path) -> None:
    """Nothing else is paid for: of 25 tokens at most, of which w2 ends a text."""
    with bandit.registered():
        penalty = LengthPenalty("linear", cost=1.0)
        run = Run.of(
            bandit.config(
                model,
                "grpo",
                env="tests/Alone-v0",
                max_tokens=8,
                length_penalty=penalty,
                optim=OptimConfig(learning_rate=5e-3),
            )
        )
        lengths = [run.advance()[0]["alice/length"] for _ in range(25)]
    assert lengths[0] > 5
    assert lengths[-1] < 2


def test_the_sampler_of_torch_needs_no_correction(model: Path) -> None:
    with bandit.registered():
        loss = LossConfig(sampler_correction="sequence")
        run = Run.of(bandit.config(model, "grpo", env="tests/Alone-v0", max_tokens=8, loss=loss))
        stats, _ = run.advance()
    assert stats["alice/sampler_weight"] == pytest.approx(1, abs=1e-3)
    assert stats["alice/sampler_capped"] == 0


def test_how_far_a_policy_is_from_the_base_is_always_logged(model: Path) -> None:
    with bandit.registered():
        run = Run.of(bandit.config(model, "grpo", env="tests/Alone-v0"))
        stats = [run.advance()[0] for _ in range(3)]
    assert all({"alice/kl_base", "alice/entropy", "alice/approx_kl"} <= set(step) for step in stats)
    assert stats[0]["alice/kl_base"] == pytest.approx(0, abs=1e-6)
    assert stats[2]["alice/kl_base"] > 1e-4


def test_the_schedule_counts_every_update(model: Path) -> None:
    with bandit.registered():
        optim = OptimConfig(schedule="linear", epochs=2, minibatches=3)
        run = Run.of(bandit.config(model, "grpo", env="tests/Alone-v0", steps=4, optim=optim))
        rates = [run.advance()[0]["alice/learning_rate"] for _ in range(4)]
    assert rates == pytest.approx([optim.learning_rate * (1 - (6 * step + 2.5) / 24) for step in range(4)])


def test_divergences_are_those_at_the_temperature_of_the_samples(model: Path) -> None:
    with bandit.registered():
        run = Run.of(bandit.config(model, "competitive_grpo", env="tests/Bandit-v0", temperature=0.5, group_size=4))
        with torch.no_grad():
            for size, policy in zip((0.02, -0.03), run.policies.values(), strict=True):
                for parameter in policy.parameters():
                    parameter.add_(size)
        turns = play(run)[0].turns
    found = base_divergence(run.policies, run.learners, turns, temperature=0.5)
    found |= policy_divergence(run.policies, run.learners, turns, temperature=0.5)
    rows = probe_rows(turns, "alice")
    said = np.concatenate([row.old_logprobs for row in rows])
    base, bob = (
        np.concatenate(run.learners["alice"].logprobs(who, rows, temperature=0.5)) for who in (None, run.policies["bob"])
    )
    assert found["alice/kl_base"] == pytest.approx(np.mean(np.exp(base - said) - 1 + said - base), rel=1e-3)
    assert found["pair/kl_alice_bob"] == pytest.approx(np.mean(said - bob), rel=1e-3)


@pytest.mark.parametrize(("said", "compared"), [(0, 0), (1, 1), (3, 1), (8, 2), (24, 4), (64, 4), (128, 8), (1000, 16)])
def test_policies_are_compared_on_few_turns_from_all_of_a_step(said: int, compared: int) -> None:
    completion = Completion((1,), (-1.0,), "stop")
    turns = [
        Turn("drafter", name, "drafter", index, index, (index,), completion, "", 0.0, {}, 0.0)
        for index in range(said)
        for name in ("alice", "bob")
    ]
    places = [row.prompt_ids[0] for row in probe_rows(turns, "alice")]
    assert abs(len(places) - compared) <= 1
    assert not places or max(places) >= said - -(-said // len(places))


def test_minibatches_are_drawn_anew_at_every_step(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seeds: dict[str, list[tuple[int, ...]]] = {"policy": [], "critic": []}
    for learner, name in (("policy", "update_policy"), ("critic", "update_critic")):

        def seen(
            *args: object, seed: tuple[int, ...], who: str = learner, update: object = getattr(run_module, name), **rest: object
        ) -> Stats:
            seeds[who].append(tuple(seed))
            return update(*args, seed=seed, **rest)

        monkeypatch.setattr(run_module, name, seen)
    with bandit.registered():
        run = Run.of(bandit.config(model, "ppo", env="tests/Alone-v0", group_size=2, seed=7))
        for _ in range(3):
            run.advance()
    assert all(len(set(own)) == 3 and all(seed[0] == 7 for seed in own) for own in seeds.values())


def test_disagreement_is_counted_where_both_have_answered() -> None:
    def duel(*texts: str) -> Contest:
        contest = agon_env.make("ArithmeticDuel-v0")
        contest.reset(seed=0)
        for text in texts:
            contest.step(text)
        return contest

    same, other = duel("\\boxed{1}", "So \\boxed{1}"), duel("\\boxed{1}", "\\boxed{2}")
    silent = duel("\\boxed{1}", "no idea")
    assert disagreement([same, other, silent]) == {"pair/disagreement": 0.5}
    assert disagreement([silent]) == {}


@pytest.mark.parametrize(("swap_roles", "seats"), [(True, {"alice", "bob"}), (False, {"alice"})])
def test_policies_that_keep_their_seats_are_judged_in_them(model: Path, swap_roles: bool, seats: set[str]) -> None:
    with bandit.registered():
        run = Run.of(bandit.config(model, "competitive_grpo", env="tests/Bandit-v0", swap_roles=swap_roles, eval_problems=4))
        judged, _ = run.evaluate()
        card = scorecard(run)
    assert {record.players["first"] for record in judged.records} == seats
    assert {order.split(" → ")[0] for order in card["by_order"]} == seats
