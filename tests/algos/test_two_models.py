"""Two really different models in one run: other families, other tokenizers, each with its own base."""

import dataclasses
import io
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from learner_fixtures import tiny_model as word_model
from learner_fixtures import tiny_tokenizer as word_tokenizer
from rich.console import Console
from safetensors.torch import load_file
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import AutoModelForCausalLM, LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from algos.config import TINY
from algos.errors import ConfigError
from algos.evaluate import evaluate
from algos.matrix.matrix import MatrixConfig, run_matrix
from algos.playing.policies import same_tokens
from algos.serving.models import served_models
from algos.trainer import train
from algos.training.console import RunConsole
from algos.training.export import Export, export
from algos.training.run import Run
from algos.training.trained import load_trained

TEMPLATE = "{% for message in messages %}{{ message['content'] }}\n{% endfor %}{% if add_generation_prompt %}> {% endif %}"


@pytest.fixture(scope="module")
def llama(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A random Llama that reads and writes bytes."""
    folder = tmp_path_factory.mktemp("llama")
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    words = Tokenizer(models.BPE({token: index for index, token in enumerate(["<end>", *letters])}, []))
    words.pre_tokenizer, words.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=words, eos_token="<end>", chat_template=TEMPLATE)
    tokenizer.save_pretrained(folder)
    torch.manual_seed(0)
    sizes = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4}
    config = LlamaConfig(vocab_size=len(tokenizer), max_position_embeddings=1024, eos_token_id=0, bos_token_id=None, **sizes)
    model = LlamaForCausalLM(config)
    with torch.no_grad():
        model.lm_head.weight[0] *= 30  # else it would hardly ever end a text, and all would be alike
    model.save_pretrained(folder)
    return folder


@pytest.fixture
def config(llama: Path):
    return dataclasses.replace(
        TINY,
        rival_models=(str(llama),),
        env_options=("difficulty=2",),
        steps=2,
        problems=2,
        group_size=4,
        max_tokens=24,
        eval_problems=4,
        lora_rank=4,
        normalize="mean",
    )


def weights(run: Path) -> dict[str, torch.Tensor]:
    return {
        f"{name}/{key}": tensor
        for name in ("alice", "bob")
        for key, tensor in load_file(run / name / "adapter_model.safetensors").items()
    }


def metrics(run: Path) -> list[dict[str, float]]:
    records = [json.loads(line) for line in (run / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]
    return [{key: value for key, value in record.items() if not key.startswith(("time/", "memory/"))} for record in records]


def test_each_policy_lives_on_its_own_base(config) -> None:
    run = Run.of(config)
    alice, bob = run.policies.values()
    assert (type(alice.base.model).__name__, type(bob.base.model).__name__) == ("Qwen3ForCausalLM", "LlamaForCausalLM")
    assert alice.base.adapters.names == ("alice",)
    assert bob.base.adapters.names == ("bob",)
    assert run.learners["alice"] is not run.learners["bob"]
    assert not same_tokens(alice, bob)
    for base in run.bases:
        before = base.checksum()
        run.advance()
        assert base.checksum() == before


def test_both_train_and_the_run_resumes_bit_for_bit(config, tmp_path: Path) -> None:
    screen = io.StringIO()
    straight = dataclasses.replace(config, output_dir=str(tmp_path / "a"), opponent="pool:uniform", opponent_share=0.5)
    # The game pays a random model nothing. So that it has something to learn, a text costs its length.
    straight = dataclasses.replace(straight, length_penalty=dataclasses.replace(TINY.length_penalty, kind="linear", cost=0.01))
    one = train(straight, console=RunConsole(Console(file=screen, width=150)))
    assert "base of alice" in screen.getvalue()
    assert "base of bob" in screen.getvalue()
    other = train(dataclasses.replace(straight, output_dir=str(tmp_path / "b"), steps=1), console=quiet())
    train(dataclasses.replace(straight, output_dir=str(tmp_path / "b")), resume=other, console=quiet())
    assert metrics(one) == metrics(other)
    a, b = weights(one), weights(other)
    assert all(torch.equal(a[key], b[key]) for key in a)
    moved = {key.partition("/")[0] for key, tensor in a.items() if "lora_B" in key and tensor.any()}
    assert moved == {"alice", "bob"}
    names = set().union(*metrics(one))
    assert {"alice/kl_base", "bob/kl_base"} <= names
    assert "pair/kl_alice_bob" not in names  # what one says are no tokens of the other


def quiet() -> RunConsole:
    return RunConsole(Console(file=io.StringIO(), width=100))


def test_two_models_with_one_tokenizer_are_compared(tmp_path: Path) -> None:
    for family in ("qwen3", "llama"):
        word_model(family).save_pretrained(tmp_path / family)
        word_tokenizer().save_pretrained(tmp_path / family)
    config = dataclasses.replace(TINY, model=str(tmp_path / "qwen3"), rival_models=(str(tmp_path / "llama"),))
    run = Run.of(dataclasses.replace(config, problems=1, group_size=2, max_tokens=4, lora_rank=2, eval_problems=0))
    assert len(run.bases) == 2
    stats, _ = run.advance()
    assert stats["pair/kl_alice_bob"] > 0


def test_a_model_that_is_named_twice_is_loaded_once(config) -> None:
    run = Run.of(dataclasses.replace(config, rival_models=("embedded",)))
    assert len(run.bases) == 1
    assert run.learners["alice"] is run.learners["bob"]


def test_one_policy_has_no_rival_to_give_a_model_to(config) -> None:
    with pytest.raises(ConfigError, match="rival_models names 1 models"):
        Run.of(dataclasses.replace(config, algorithm="grpo"))


@pytest.fixture(scope="module")
def trained(llama: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    config = dataclasses.replace(TINY, rival_models=(str(llama),), problems=1, group_size=2, max_tokens=8, lora_rank=2, steps=1)
    config = dataclasses.replace(config, eval_problems=0, output_dir=str(tmp_path_factory.mktemp("runs")))
    return train(config, console=quiet())


def test_each_policy_is_exported_for_its_base(trained: Path, llama: Path, tmp_path: Path) -> None:
    export(Export.of(trained, tmp_path), merge=True)
    merged = {name: AutoModelForCausalLM.from_pretrained(tmp_path / f"{name}-merged") for name in ("alice", "bob")}
    assert [type(model).__name__ for model in merged.values()] == ["Qwen3ForCausalLM", "LlamaForCausalLM"]
    settings = json.loads((tmp_path / "bob" / "adapter_config.json").read_text(encoding="utf-8"))
    assert settings["base_model_name_or_path"] == str(llama)


def test_the_pair_and_both_bases_are_served(trained: Path, llama: Path) -> None:
    models = served_models(load_trained(trained))
    assert set(models) == {"pair", "alice", "bob", "base:embedded", f"base:{llama}"}
    drafter, challenger = models["pair"].speakers
    assert (type(drafter.base.model).__name__, type(challenger.base.model).__name__) == ("Qwen3ForCausalLM", "LlamaForCausalLM")


def test_rows_of_the_matrix_train_and_are_judged_on_two_bases(
    llama: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    common = dataclasses.replace(TINY, env_options=("difficulty=2",), problems=1, group_size=2, max_tokens=8, lora_rank=2)
    rows = ("moa", "moa_two_bases", "agon", "agon_two_bases")
    config = MatrixConfig(dataclasses.replace(common, rival_models=(str(llama),)), seeds=1, budget=40, problems=4, rows=rows)
    played = []

    def look(make: Any, players: Mapping[str, Any], **kwargs: Any) -> Any:
        played.append(len({player.base.name for player in players.values()}))
        return evaluate(make, players, **kwargs)

    monkeypatch.setattr("algos.matrix.matrix.evaluate", look)
    results = run_matrix(dataclasses.replace(config, output_dir=str(tmp_path)), console=quiet())
    assert played == [1, 2, 1, 2]
    assert {(d["row"], d["minus"]) for d in results["differences"]} == {("moa_two_bases", "moa"), ("agon_two_bases", "agon")}
    bases = {name: load_trained(tmp_path / "runs" / f"{name}-seed0").bases for name in ("agon", "agon_two_bases")}
    assert {name: len(found) for name, found in bases.items()} == {"agon": 1, "agon_two_bases": 2}
