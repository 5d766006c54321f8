"""Every guard fires when its fault is planted, names who and what, and leaves a sound run alone."""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import bandit
import pytest
import torch

from agents.errors import AdapterSwitched
from algos.errors import BaseChanged, Diverged, IdlePolicyMoved, SamplerMismatch
from algos.events import Event
from algos.guards import GuardConfig, load_batch
from algos.guards.collapse import CollapseWatch
from algos.learner import LocalLearner
from algos.learning.optim import OptimConfig
from algos.training.run import Run
from algos.types import Stats


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return bandit.save_model(tmp_path_factory.mktemp("model"))


@pytest.fixture(autouse=True)
def games() -> Any:
    with bandit.registered():
        yield


def make_run(model: Path, algorithm: str = "competitive_grpo", **changes: Any) -> Run:
    small = {"env": "tests/Bandit-v0", "problems": 2, "group_size": 8, "max_tokens": 2, "lora_rank": 2}
    run = Run.of(bandit.config(model, algorithm, **(small | changes)))
    run.guards.begin(0, folder=None)
    return run


def weights(run: Run, name: str) -> list[torch.Tensor]:
    return [parameter.detach().clone() for parameter in run.policies[name].parameters()]


def same(one: list[torch.Tensor], other: list[torch.Tensor]) -> bool:
    return all(torch.equal(a, b) for a, b in zip(one, other, strict=True))


def kinds(run: Run) -> list[str]:
    return [event.kind for event in run.guards.drain()]


@pytest.mark.parametrize("algorithm", ["competitive_grpo", "competitive_ppo", "grpo"])
def test_a_sound_run_is_left_alone(model: Path, algorithm: str) -> None:
    run = make_run(model, algorithm, optim=OptimConfig(learning_rate=1e-2, minibatches=2, epochs=2))
    for _ in range(3):
        stats, _ = run.advance()
        run.guards.observe(stats)
        assert not any(key.endswith("skipped") for key in stats)
    run.guards.bases.check()
    assert kinds(run) == []


# --- numbers that are not finite --------------------------------------------------------------------


def plant_nan(monkeypatch: pytest.MonkeyPatch, run: Run, *, updates: Sequence[int]) -> None:
    """Let the loss be NaN in these updates, counted from 0."""
    learner, seen = run.learners["alice"], iter(range(10**6))
    loss = learner._loss

    def spoiled(*args: Any) -> tuple[torch.Tensor, Stats]:
        value, stats = loss(*args)
        return (value * math.nan, stats | {"loss": math.nan}) if next(seen) in updates else (value, stats)

    monkeypatch.setattr(learner, "_loss", spoiled)


def test_an_update_that_is_not_finite_is_left_out_and_kept(
    model: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    run = make_run(model)
    run.guards.folder = tmp_path
    plant_nan(monkeypatch, run, updates=[0])
    before = weights(run, "alice"), weights(run, "bob")
    stats, _ = run.advance()
    assert stats["alice/skipped"] == 1
    assert same(weights(run, "alice"), before[0])
    assert not same(weights(run, "bob"), before[1])
    (event,) = run.guards.drain()
    assert (event.kind, event.step, event.policy, event.file) == (
        "update_not_finite",
        0,
        "alice",
        "skipped/step-0-alice.safetensors",
    )
    rows, facts = load_batch(tmp_path / str(event.file))
    assert len(rows) == stats["alice/rows"]
    assert "nan" in facts["error"]
    assert all(row.completion_ids and len(row.old_logprobs) == len(row.completion_ids) for row in rows)
    run.advance()
    assert not same(weights(run, "alice"), before[0])
    assert kinds(run) == []


def plant_nan_in_the_critic(monkeypatch: pytest.MonkeyPatch, run: Run, *, updates: Sequence[int]) -> None:
    """Let the loss of alice's critic be NaN in these updates, counted from 0."""
    critic, seen = run.critics["alice"], iter(range(10**6))
    accumulate = critic._accumulate

    def spoiled(rows: Any, *args: Any) -> Stats:
        bad = next(seen) in updates
        return accumulate([replace(rows[0], returns=(math.nan,) * len(rows[0].returns)), *rows[1:]] if bad else rows, *args)

    monkeypatch.setattr(critic, "_accumulate", spoiled)


def test_an_update_of_a_critic_that_is_not_finite_is_left_out_and_kept(
    model: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    run = make_run(model, "competitive_ppo", optim=OptimConfig(minibatches=2))
    run.guards.folder = tmp_path
    plant_nan_in_the_critic(monkeypatch, run, updates=[0, 1])
    before = [parameter.detach().clone() for parameter in run.critics["alice"].parameters()]
    policies = weights(run, "alice"), weights(run, "bob")
    stats, _ = run.advance()
    assert stats["alice/value_skipped"] == 2
    assert "bob/value_skipped" not in stats
    assert "alice/skipped" not in stats
    assert same([parameter.detach() for parameter in run.critics["alice"].parameters()], before)
    assert not any(map(same, (weights(run, "alice"), weights(run, "bob")), policies))
    first, second = run.guards.drain()
    assert (first.kind, first.policy, first.file, second.file) == (
        "update_not_finite",
        "alice",
        "skipped/step-0-alice-value.safetensors",
        "skipped/step-0-alice-value.2.safetensors",
    )
    assert "an update of the critic of alice was left out: the loss of 'alice-value' is nan" in first.message
    saved = [load_batch(tmp_path / str(event.file)) for event in (first, second)]
    assert sum(len(rows) for rows, _ in saved) == stats["alice/rows"]
    assert all(facts["rows"] == "ValueRow" and "nan" in facts["error"] for _, facts in saved)
    assert all(len(row.returns) == len(row.values) >= len(row.completion_ids) for rows, _ in saved for row in rows)
    run.advance()
    assert not same([parameter.detach() for parameter in run.critics["alice"].parameters()], before)
    assert kinds(run) == []


def test_a_critic_that_is_not_finite_several_times_stops_the_run(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = make_run(model, "ppo", env="tests/Alone-v0", guards=GuardConfig(most_skipped=2))
    plant_nan_in_the_critic(monkeypatch, run, updates=[0, 2, 3])
    for _ in range(3):
        run.advance()
    with pytest.raises(Diverged, match="2 updates of the critic of alice in a row were left out"):
        run.advance()


def test_a_critic_with_weights_that_are_not_finite_stops_the_run_and_is_blamed(model: Path) -> None:
    run = make_run(model, "ppo", env="tests/Alone-v0")
    with torch.no_grad():
        run.critics["alice"].head_D[0] = math.nan
    before = weights(run, "alice")
    with pytest.raises(Diverged, match="the weights of the critic of alice are not finite"):
        run.advance()
    assert same(weights(run, "alice"), before)
    rows, update = run.guards.drain()
    assert (rows.kind, update.kind) == ("row_not_finite", "update_not_finite")
    assert "A reward, or the critic, is not finite" in rows.message
    assert len(rows.rows) == len(update.rows) > 0


def test_an_infinite_gradient_of_a_critic_is_left_out(model: Path) -> None:
    run = make_run(model, "ppo", env="tests/Alone-v0")
    run.advance()
    spoiled = run.critics["alice"].parameters()[0].register_hook(lambda gradient: gradient * math.inf)
    before = [parameter.detach().clone() for parameter in run.critics["alice"].parameters()]
    stats, _ = run.advance()
    spoiled.remove()
    assert stats["alice/value_skipped"] == 1
    assert same([parameter.detach() for parameter in run.critics["alice"].parameters()], before)
    assert kinds(run) == ["update_not_finite"]


def test_several_in_a_row_stop_the_run(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = make_run(model, "grpo", env="tests/Alone-v0", guards=GuardConfig(most_skipped=2))
    plant_nan(monkeypatch, run, updates=[0, 2, 3])
    for _ in range(3):
        run.advance()
    with pytest.raises(
        Diverged, match="2 updates of alice in a row were left out, the last because the loss of 'alice' is nan"
    ):
        run.advance()


def test_the_guilty_row_is_named(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = make_run(model, "grpo", env="tests/Alone-v0")
    plant_nan(monkeypatch, run, updates=[0])
    scored = LocalLearner.logprobs

    def one_is_nan(self: LocalLearner, policy: Any, rows: Any, **how: Any) -> list[tuple[float, ...]]:
        found = scored(self, policy, rows, **how)
        return [*found[:1], tuple(math.nan for _ in found[1]), *found[2:]] if len(found) > 1 else found

    stats: Stats = {}
    with monkeypatch.context() as patch:
        patch.setattr(LocalLearner, "logprobs", one_is_nan)
        stats, _ = run.advance()
    assert stats["alice/skipped"] == 1
    (event,) = run.guards.drain()
    assert event.rows == (1,)


def test_an_infinite_gradient_is_left_out(model: Path) -> None:
    run = make_run(model, "grpo", env="tests/Alone-v0")
    spoiled = run.policies["alice"].parameters()[0].register_hook(lambda gradient: gradient * math.inf)
    before = weights(run, "alice")
    stats, _ = run.advance()
    spoiled.remove()
    assert stats["alice/skipped"] == 1
    assert same(weights(run, "alice"), before)
    assert kinds(run) == ["update_not_finite"]


def test_rows_whose_log_probabilities_are_not_finite_are_left_out(model: Path, tmp_path: Path) -> None:
    run = make_run(model, "grpo", env="tests/Alone-v0")
    run.guards.folder = tmp_path
    sample = type(run).sample

    def broken(self: Run, requests: Any) -> Any:
        [[first, *others]] = sample(self, requests)
        return [[replace(first, logprobs=(math.nan, *first.logprobs[1:])), *others]]

    run.sample = broken.__get__(run)  # type: ignore[method-assign]
    stats, _ = run.advance()
    (event,) = run.guards.drain()
    assert (event.kind, event.policy, event.rows) == ("row_not_finite", "alice", (0,))
    rows, _ = load_batch(tmp_path / str(event.file))
    assert stats["alice/rows"] == len(rows) - 1
    assert math.isnan(rows[0].old_logprobs[0])


def test_weights_that_are_not_finite_stop_the_run_at_once(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = make_run(model, "grpo", env="tests/Alone-v0")
    run.advance()
    plant_nan(monkeypatch, run, updates=[0])
    sample = type(run).sample

    def then_spoil(self: Run, requests: Any) -> Any:
        completions = sample(self, requests)
        with torch.no_grad():
            self.policies["alice"].parameters()[0][0] = math.nan
        return completions

    run.sample = then_spoil.__get__(run)  # type: ignore[method-assign]
    with pytest.raises(Diverged, match="the weights of alice are not finite"):
        run.advance()


# --- who samples, and who learns --------------------------------------------------------------------


def train_a_little(run: Run) -> None:
    """Move the policies so far apart that it shows who samples."""
    with torch.no_grad():
        for seed, policy in enumerate(run.policies.values()):
            generator = torch.Generator().manual_seed(seed)
            for parameter in policy.parameters():
                parameter.add_(torch.randn(parameter.shape, generator=generator), alpha=0.3)
    run.guards.loaded()


def sampling_with(run: Run, adapter: str | None) -> Any:
    """Let the sampler run alice with another adapter."""
    sample = type(run).sample

    def other(self: Run, requests: Any) -> Any:
        whose = self.policies["alice"].base.policy() if adapter is None else self.policies[adapter]
        return sample(self, [replace(one, policy=whose) if one.policy.name == "alice" else one for one in requests])

    return other.__get__(run)


@pytest.mark.parametrize(("adapter", "named"), [(None, "the bare base"), ("bob", "bob")])
def test_an_adapter_that_did_not_arrive_is_found_out(model: Path, adapter: str | None, named: str) -> None:
    run = make_run(model)
    train_a_little(run)
    run.sample = sampling_with(run, adapter)  # type: ignore[method-assign]
    with pytest.raises(SamplerMismatch, match=f"it was {named} that sampled it: the adapter of alice did not arrive"):
        run.advance()


def test_a_stale_adapter_is_left_out_and_then_stops_the_run(model: Path) -> None:
    run = make_run(
        model, "grpo", env="tests/Alone-v0", optim=OptimConfig(learning_rate=5e-2), guards=GuardConfig(most_skipped=2)
    )
    train_a_little(run)
    stale = weights(run, "alice")
    run.advance()
    sample = type(run).sample

    def old_weights(self: Run, requests: Any) -> Any:
        now = weights(self, "alice")
        parameters = requests[0].policy.parameters()
        with torch.no_grad():
            for parameter, old in zip(parameters, stale, strict=True):
                parameter.copy_(old)
            try:
                return sample(self, requests)
            finally:
                for parameter, new in zip(parameters, now, strict=True):
                    parameter.copy_(new)

    run.sample = old_weights.__get__(run)  # type: ignore[method-assign]
    before = weights(run, "alice")
    stats, _ = run.advance()
    assert stats["alice/skipped"] == 1
    assert same(weights(run, "alice"), before)
    (event,) = run.guards.drain()
    assert event.kind == "logprob_mismatch"
    assert "sampler and learner differ by" in event.message
    with pytest.raises(SamplerMismatch, match="2 updates of alice in a row"):
        run.advance()


def test_the_bound_is_the_users(model: Path) -> None:
    run = make_run(model, guards=GuardConfig(mismatch=0))
    train_a_little(run)
    run.sample = sampling_with(run, "bob")  # type: ignore[method-assign]
    run.advance()
    assert kinds(run) == []


@pytest.mark.parametrize("other", ["bob", None])
@pytest.mark.parametrize("algorithm", ["competitive_grpo", "competitive_ppo"])
def test_an_adapter_that_is_switched_between_forward_and_backward_is_found_out(
    model: Path, monkeypatch: pytest.MonkeyPatch, algorithm: str, other: str | None
) -> None:
    run = make_run(model, algorithm)
    base, learner = run.bases[0], run.learners["alice"]
    before = [weights(run, name) for name in run.policies]
    # with a critic it is the critic's update that is disturbed
    owner, method = (run.critics["alice"], "_values") if run.critics else (learner, "_loss")
    forward = getattr(owner, method)

    def then_switched(*args: Any) -> Any:
        value = forward(*args)
        loss = value[0] if isinstance(value, tuple) else value
        if loss.requires_grad:
            switched.enter_context(base.use(other))
        return value

    monkeypatch.setattr(owner, method, then_switched)
    with ExitStack() as switched, pytest.raises(AdapterSwitched, match=rf"'alice.*'{other or 'base'}'"):
        run.advance()
    if not run.critics:
        assert all(same(weights(run, name), old) for name, old in zip(run.policies, before, strict=True))
    assert all(parameter.grad is None for name in run.policies for parameter in run.policies[name].parameters())


# --- weights that must not move ---------------------------------------------------------------------


def test_a_base_that_changed_is_found_out(model: Path) -> None:
    run = make_run(model)
    run.advance()
    run.guards.bases.check()
    with torch.no_grad():
        run.bases[0].model.get_input_embeddings().weight[0, 0] += 1e-3
    with pytest.raises(BaseChanged, match=r"the frozen weights of .* have changed"):
        run.guards.bases.check()


def test_the_base_is_read_once_at_the_start(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = make_run(model)
    read, checksum = [], run.bases[0].checksum
    monkeypatch.setattr(run.bases[0], "checksum", lambda: read.append(1) or checksum())
    run.guards.begin(0, folder=None)
    assert run.guards.state()["bases"] == {run.bases[0].name: checksum()}
    assert len(read) == 1


def test_a_checkpoint_of_another_base_is_refused(model: Path) -> None:
    run = make_run(model)
    state = run.guards.state()
    with pytest.raises(BaseChanged, match="is another model than the one that this run was begun on"):
        run.guards.restore(state | {"bases": dict.fromkeys(state["bases"], "0" * 64)})


@pytest.mark.parametrize("algorithm", ["competitive_grpo", "competitive_ppo"])
def test_an_idle_policy_that_moves_is_found_out(model: Path, algorithm: str) -> None:
    run = make_run(model, algorithm)
    step = LocalLearner.optim_step
    idle = run.critics["bob"].parameters()[-1] if algorithm == "competitive_ppo" else run.policies["bob"].parameters()[3]

    def shared(self: LocalLearner, policy: Any) -> Stats:
        if policy.name == "alice":
            with torch.no_grad():
                idle.mul_(1 + 1e-6).add_(1e-6)
        return step(self, policy)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(LocalLearner, "optim_step", shared)
        with pytest.raises(IdlePolicyMoved, match=r"the update of 'alice' has moved .*bob"):
            run.advance()


# --- collapse ---------------------------------------------------------------------------------------


def watched(steps: Sequence[Stats], window: int = 3, eval_problems: int = 100) -> list[Event]:
    watch = CollapseWatch(window, eval_problems=eval_problems)
    return [event for step, stats in enumerate(steps) for event in watch.observe(step, stats)]


HEALTHY: Stats = {
    "alice/entropy": 0.7,
    "alice/length": 40.0,
    "alice/truncated": 0.1,
    "alice/reward": 0.4,
    "alice/wins": 0.5,
    "pair/wins_drafter": 0.3,
    "groups/total": 16.0,
    "groups/dropped": 5.0,
}
SIGNS: dict[str, tuple[Stats, str | None, str]] = {
    "entropy_collapse": ({"alice/entropy": 0.01}, "alice", "lower the learning rate"),
    "length_collapse": ({"alice/length": 4.0}, "alice", "what it is paid for"),
    "cut_off": ({"alice/truncated": 0.6}, "alice", "raise max_tokens"),
    "equal_answers": ({"groups/dropped": 16.0}, None, "nothing was learned"),
    "one_winner": ({"pair/wins_drafter": 1.0}, "drafter", "Rotate the seats"),
}


@pytest.mark.parametrize("kind", SIGNS)
def test_a_collapse_is_told_once(kind: str) -> None:
    changed, subject, advice = SIGNS[kind]
    assert watched([HEALTHY] * 20) == []
    (event,) = watched([HEALTHY] * 4 + [HEALTHY | changed] * 10)
    assert (event.kind, event.policy) == (kind, subject)
    assert 4 < event.step <= 6
    assert advice in event.message
    assert watched([HEALTHY] * 4 + [HEALTHY | changed] * 2 + [HEALTHY] * 9) == []  # a bad patch is no collapse


def test_reward_up_while_held_out_falls() -> None:
    def run(rewards: Sequence[float], figures: Sequence[float], eval_problems: int = 100) -> list[Event]:
        steps: list[Stats] = []
        for reward, figure in zip(rewards, figures, strict=True):
            steps += [HEALTHY | {"alice/reward": reward}] * 2 + [
                HEALTHY | {"alice/reward": reward, "eval/answer_pass1": figure}
            ]
        return watched(steps, eval_problems=eval_problems)

    (event,) = run([0.3, 0.5, 0.7], [0.5, 0.6, 0.2])
    assert event.kind == "held_out_falls"
    assert "fallen from 60.0% to 20.0%" in event.message
    assert run([0.3, 0.5, 0.7], [0.5, 0.6, 0.55]) == []  # within the noise of 100 problems
    assert run([0.7, 0.5, 0.3], [0.5, 0.6, 0.2]) == []  # the reward tells it itself
    assert run([0.3, 0.5, 0.7], [0.5, 0.6, 0.2], eval_problems=0) == []  # scores won from a rival


def test_the_watch_goes_on_where_it_was_left() -> None:
    steps = [HEALTHY] * 4 + [HEALTHY | {"alice/entropy": 0.01}] * 10
    one, other = CollapseWatch(3, eval_problems=1), CollapseWatch(3, eval_problems=1)
    told: list[Event] = []
    for step, stats in enumerate(steps):
        told += one.observe(step, stats)
        other.restore(one.state())
        one, other = other, CollapseWatch(3, eval_problems=1)
    assert told == watched(steps)


def test_the_disk_is_watched(model: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    run = make_run(model)
    free = iter([5e9, 5e8, 4e8, 5e9, 1e8])
    monkeypatch.setattr("algos.guards.guards.shutil.disk_usage", lambda _: SimpleNamespace(free=next(free)))
    for _ in range(5):
        run.guards.check_disk(tmp_path)
    assert kinds(run) == ["disk_nearly_full"] * 2


@pytest.mark.parametrize(
    ("field", "value"), [("mismatch", -1.0), ("most_skipped", 0), ("collapse_window", -1), ("min_free_gb", -1.0)]
)
def test_impossible_bounds_are_refused(field: str, value: float) -> None:
    with pytest.raises(ValueError, match=f"{field} must be at least"):
        GuardConfig(**{field: value})
