"""Models that lack something: each trains, or is refused before the first step by a sentence."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

sys.path.append(str(Path(__file__).parents[1] / "algos"))
import bandit

from agents.errors import ChatTemplateFailed, ChatTemplateMissing, ModelNotFound, PromptTooLong
from algos.errors import ConfigError
from algos.rollouts import rollout
from algos.training.run import Run


@pytest.fixture
def games() -> Iterator[None]:
    with bandit.registered():
        yield


@pytest.fixture
def model(tmp_path: Path, games: None) -> Path:
    return bandit.save_model(tmp_path / "model")


def trained(model: Path, **changes: Any) -> Run:
    run = Run.of(bandit.config(model, "competitive_grpo", env="tests/Bandit-v0", **({"max_tokens": 2} | changes)))
    run.guards.begin(0, folder=None)
    for _ in range(2):
        stats, _ = run.advance()
        assert stats["alice/rows"] > 0
    return run


def test_without_a_pad_token(model: Path) -> None:
    config = json.loads((model / "tokenizer_config.json").read_text(encoding="utf-8"))
    config.pop("pad_token")
    (model / "tokenizer_config.json").write_text(json.dumps(config), encoding="utf-8")
    assert AutoTokenizer.from_pretrained(model).pad_token is None
    trained(model)


def test_without_a_chat_template(model: Path) -> None:
    tokenizer = AutoTokenizer.from_pretrained(model)
    tokenizer.chat_template = None
    (model / "chat_template.jinja").unlink()
    tokenizer.save_pretrained(model)
    with pytest.raises(ChatTemplateMissing, match="no chat template"):
        trained(model)


@pytest.mark.parametrize("tied", [True, False])
def test_with_embeddings_that_were_resized(model: Path, tied: bool) -> None:
    """More rows than the tokenizer has tokens: some of what is sampled has no text."""
    network = AutoModelForCausalLM.from_pretrained(model)
    network.config.tie_word_embeddings = tied
    if not tied:
        network.lm_head.weight = torch.nn.Parameter(network.lm_head.weight.detach().clone())
    network.resize_token_embeddings(48)
    network.save_pretrained(model)
    run = trained(model)
    assert run.bases[0].model.get_input_embeddings().weight.shape[0] == 48


def test_more_tokens_than_the_context_are_refused_at_the_start(model: Path) -> None:
    with pytest.raises(ConfigError, match=r"max_tokens must be at most 48, not 64: the context of .* has 64 tokens"):
        trained(model, max_tokens=64)


def long_template(model: Path, words: int) -> None:
    (model / "chat_template.jinja").write_text(
        "w3 " * words + "{% for message in messages %}{{ message['content'] }} {% endfor %}", encoding="utf-8"
    )


def test_a_prompt_that_can_not_be_cut_aborts_its_contest(model: Path) -> None:
    long_template(model, 70)
    run = Run.of(bandit.config(model, "competitive_grpo", env="tests/Bandit-v0", max_tokens=2))
    stats, played = run.advance()
    assert stats["alice/rows"] == stats["bob/rows"] == 0
    reasons = {contest.outcome.reason for contest in played.contests if contest.outcome is not None}
    assert all(
        reason.startswith("aborted: no move:") and "could not be asked: the prompt of first takes" in reason
        for reason in reasons
    )
    assert {event.kind for event in run.guards.drain()} == {"agent_fault"}


@pytest.mark.parametrize("policy", ["retry", "forfeit"])
def test_it_is_not_played_again_and_nobody_loses_by_it_whatever_becomes_of_agents(model: Path, policy: str) -> None:
    long_template(model, 70)
    run = Run.of(bandit.config(model, "competitive_grpo", env="tests/Bandit-v0", max_tokens=2, on_agent_fault=policy))
    played: list[Any] = []
    run.rollout = lambda *args, **how: played.append(rollout(*args, **how)) or played[-1]  # type: ignore[func-returns-value]
    run.advance()
    assert len(played) == 1
    (event,) = run.guards.drain()
    assert event.message.startswith("in 64 of 64 contests alice could not be asked: ")
    assert event.message.endswith("; nobody is paid for them")


def test_by_policy_it_stops_the_run(model: Path) -> None:
    long_template(model, 70)
    run = Run.of(bandit.config(model, "competitive_grpo", env="tests/Bandit-v0", max_tokens=2, on_long_prompt="error"))
    with pytest.raises(PromptTooLong, match=r"takes .* tokens, but a context of 64"):
        run.advance()


def test_a_prompt_that_is_too_long_is_cut(model: Path) -> None:
    long_template(model, 55)
    trained(model, max_tokens=8)


@pytest.mark.parametrize(
    "template",
    [
        "{{ ''.__class__.__mro__ }}",
        "{{ cycler.__init__.__globals__.os.system('true') }}",
        "{% include '/etc/passwd' %}",
        "{{ 1 / 0 }}",
        "{{ raise_exception('no') }}",
        "{{ nothing.at.all }}",
    ],
)
def test_a_chat_template_that_does_not_do_its_work_is_named(model: Path, template: str) -> None:
    """A template runs in a sandbox of Jinja's; whatever it raises is told in a sentence."""
    (model / "chat_template.jinja").write_text(template, encoding="utf-8")
    with pytest.raises(ChatTemplateFailed, match=r"the chat template can't write the messages \(.*pass another as"):
        trained(model)


BROKEN: dict[str, Callable[[Path], Any]] = {
    "no weights": lambda model: (model / "model.safetensors").unlink(),
    "weights that are cut": lambda model: (model / "model.safetensors").write_bytes(
        (model / "model.safetensors").read_bytes()[:5000]
    ),
    "weights that are empty": lambda model: (model / "model.safetensors").write_bytes(b""),
    "weights as a pickle": lambda model: _pickled(model),
    "no config": lambda model: (model / "config.json").unlink(),
    "a config that is no JSON": lambda model: (model / "config.json").write_text("{", encoding="utf-8"),
    "a config of a model that is unknown": lambda model: _config(model, model_type="agon", architectures=["Agon"]),
    "a config that asks for code": lambda model: _config(model, model_type="own", auto_map={"AutoConfig": "code.Config"}),
    "a config that names a kernel of the hub": lambda model: _config(model, attn_implementation="someone/kernel"),
    "a config whose sizes can't be": lambda model: _config(model, max_position_embeddings="long"),
    "an adapter beside it": lambda model: (model / "adapter_config.json").write_text(
        json.dumps({"peft_type": "LORA", "r": 4, "target_modules": ["q_proj"], "base_model_name_or_path": "someone/base"}),
        encoding="utf-8",
    ),
    "no tokenizer": lambda model: (model / "tokenizer.json").unlink(),
    "a tokenizer that is no JSON": lambda model: (model / "tokenizer.json").write_text("[", encoding="utf-8"),
}


def _config(model: Path, **changes: Any) -> None:
    config = json.loads((model / "config.json").read_text(encoding="utf-8"))
    (model / "config.json").write_text(json.dumps(config | changes), encoding="utf-8")
    (model / "code.py").write_text("open('/tmp/agon-code-ran', 'w').close()\nclass Config: pass\n", encoding="utf-8")


def _pickled(model: Path) -> None:
    weights = AutoModelForCausalLM.from_pretrained(model).state_dict()
    (model / "model.safetensors").unlink()
    torch.save(weights, model / "pytorch_model.bin")


@pytest.mark.parametrize("how", BROKEN)
def test_a_broken_model_is_refused(model: Path, how: str) -> None:
    BROKEN[how](model)
    with pytest.raises(
        ModelNotFound, match=r"no model can be loaded from|holds no model|names the kernel|holds an adapter beside"
    ):
        Run.of(bandit.config(model, "grpo", env="tests/Alone-v0"))
    assert not Path("/tmp/agon-code-ran").exists()
