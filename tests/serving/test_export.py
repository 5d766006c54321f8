"""What is exported loads elsewhere: in plain PEFT and transformers, as a merged model, as chat data; its snippets run."""

import ast
import json
import re
import runpy
import shutil
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from huggingface_hub import ModelCard
from peft import PeftModel
from transformers import AutoModelForCausalLM, AutoTokenizer

from agents import embedded
from algos.cli import run as agon
from algos.config import TINY
from algos.trainer import train
from algos.training.export import Export, _facts, export
from algos.training.export_chat_data import winner_of, won_texts
from algos.training.markdown import as_code, as_name
from algos.training.trained import load_trained

PROMPT = [{"role": "user", "content": "What is (3 + 4) * 2?"}]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    config = replace(TINY, steps=2, problems=2, group_size=6, eval_problems=8, env_options=("difficulty=2",), name="look")
    optim = replace(config.optim, learning_rate=0.01, warmup_steps=0)  # so that the adapters leave the base
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["agon", "train", "--seed", "0"])
        return train(replace(config, optim=optim, temperature=1.5, output_dir=str(tmp_path_factory.mktemp("runs"))))


@pytest.fixture(scope="module")
def out(run: Path) -> Path:
    assert agon(["export", str(run), "--merge", "--sft"]) == 0
    return run / "export"


def logits(model: torch.nn.Module, tokenizer: object) -> torch.Tensor:
    prompt = tokenizer.apply_chat_template(PROMPT, add_generation_prompt=True, return_tensors="pt", return_dict=True)
    with torch.no_grad():
        return model(**prompt).logits


def test_what_is_written(out: Path) -> None:
    assert {path.name for path in out.iterdir()} == {
        "README.md", "chat.py", "train_config.json", "chat.jsonl", "alice", "bob", "alice-merged", "bob-merged"
    }  # fmt: skip
    assert {path.name for path in (out / "alice").iterdir()} == {
        "README.md", "adapter_config.json", "adapter_model.safetensors"
    }  # fmt: skip
    assert "model.safetensors" in {path.name for path in (out / "alice-merged").iterdir()}
    assert (
        json.loads((out / "alice" / "adapter_config.json").read_text(encoding="utf-8"))["base_model_name_or_path"] == "embedded"
    )


@pytest.mark.parametrize("name", ["alice", "bob"])
def test_adapters_load_in_plain_peft_and_the_merged_model_is_equal_to_them(out: Path, run: Path, name: str) -> None:
    tokenizer = AutoTokenizer.from_pretrained(embedded.path())
    base = AutoModelForCausalLM.from_pretrained(embedded.path(), dtype=torch.float32)
    plain = logits(base, tokenizer)
    adapted = logits(PeftModel.from_pretrained(base, out / name), tokenizer)
    assert (adapted - plain).abs().max() > 0.01
    policy = load_trained(run).policies[name]
    with policy.base.use(name):
        assert torch.allclose(logits(policy.base.model, tokenizer), adapted, atol=1e-4)
    merged = AutoModelForCausalLM.from_pretrained(out / f"{name}-merged")
    assert merged.dtype == torch.float32
    assert torch.allclose(logits(merged, AutoTokenizer.from_pretrained(out / f"{name}-merged")), adapted, atol=1e-4)


def test_the_snippet_of_an_adapters_card_runs(out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(out / "bob")
    (code,) = re.findall(r"^```python\n(.*?)^```", Path("README.md").read_text(encoding="utf-8"), re.M | re.S)
    exec(compile(code, "README.md", "exec"), {})


def test_the_chat_example_runs(
    out: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["chat.py", "Start with 3 a+4"])
    runpy.run_path(str(out / "chat.py"))
    shown = capsys.readouterr().out
    assert "[draft of alice]" in shown
    assert "[answer of bob]" in shown


def test_the_card_has_metadata_figures_and_the_command(out: Path, run: Path) -> None:
    for card in (ModelCard.load(out / "README.md"), ModelCard.load(out / "alice" / "README.md")):
        assert card.data.library_name == "peft"
        assert "agon-env" in card.data.tags
        assert "base_model" not in card.data.to_dict()  # the embedded model is on no hub
    text = (out / "README.md").read_text(encoding="utf-8")
    after = json.loads((run / "summary.json").read_text(encoding="utf-8"))["after"]
    assert f"{100 * after['answer_pass1']:.1f} % (" in text
    assert "`alice` drafts, `bob` answers" in text
    session = json.loads((run / "sessions.jsonl").read_text(encoding="utf-8").split("\n")[0])
    assert "agon train --seed 0" in session["command"]
    assert session["command"] in text
    assert f"torch {session['versions']['torch']}" in text


def test_a_base_from_the_hub_is_named_in_the_metadata(run: Path) -> None:
    what = Export.of(run)
    hub = replace(what, models=dict.fromkeys(what.models, "Qwen/Qwen3-0.6B"))
    assert "base_model: Qwen/Qwen3-0.6B" in _facts(hub)["card_data"].replace("\n- ", " ")


def test_the_steps_on_a_card_are_those_of_the_adapters(run: Path, tmp_path: Path) -> None:
    assert _facts(Export.of(run))["steps"] == 2
    finished = Path(shutil.copytree(run, tmp_path / "step-by-step", ignore=shutil.ignore_patterns("checkpoint")))
    assert _facts(Export.of(finished))["steps"] == 2


def test_the_texts_that_won_are_chat_data(out: Path, run: Path, tmp_path: Path) -> None:
    from datasets import load_dataset

    data = load_dataset("json", data_files=str(out / "chat.jsonl"), split="train", cache_dir=str(tmp_path))
    contests = [json.loads(line) for line in (run / "contests.jsonl").read_text(encoding="utf-8").split("\n") if line]
    won = {
        (contest["policies"][player], event["text"])
        for contest in contests
        for player, reward in contest["outcome"]["rewards"].items()
        for event in contest["events"]
        if event["player"] == player and reward > min(contest["outcome"]["rewards"].values()) and not event["truncated"]
    }
    assert {(row["policy"], row["messages"][-1]["content"]) for row in data} == won != set()
    answers = [row for row in data if row["role"] == "challenger"]
    assert all("A rival has answered" in row["messages"][0]["content"] for row in answers)
    assert all([message["role"] for message in row["messages"]] == ["user", "assistant"] for row in data)
    assert len({json.dumps(row["messages"]) for row in data}) == len(data)


def test_odd_texts_are_read_back_by_datasets(tmp_path: Path) -> None:
    from datasets import load_dataset

    import agon_env

    env = agon_env.make("ArithmeticSolo-v0", difficulty=2)
    env.reset(seed=0)
    said = env.solution("solver") + " \ud800 \u2028 </script> \x1b[31m"
    env.step(said)
    rows = list(won_texts({"policies": {"alice": "alice"}, "step": 0}, env.transcript))
    (tmp_path / "chat.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    data = load_dataset("json", data_files=str(tmp_path / "chat.jsonl"), split="train", cache_dir=str(tmp_path / "cache"))
    assert data[0]["messages"][-1]["content"] == said.replace("\ud800", "\ufffd")


def test_a_bases_name_is_text_in_the_files(run: Path, tmp_path: Path) -> None:
    what = Export.of(run, tmp_path)
    odd = 'a"); print("b\\'
    export(replace(what, models=dict.fromkeys(what.models, odd)))
    code = (tmp_path / "chat.py").read_text(encoding="utf-8")
    (load,) = (
        node for node in ast.walk(ast.parse(code)) if isinstance(node, ast.Call) and ast.unparse(node.func).endswith(".load")
    )
    assert ast.literal_eval(load.args[0]) == odd


HOSTILE = (
    "x`\n\n<script>alert(1)</script>\n\n# Owned\n```\n---\nlicense: evil\n---\n"
    "[a](javascript:alert(1)) | b {{ 7 * 7 }}\x1b[31m\u202e\ud800"
)


def markup(card: Path) -> set[str]:
    """Return the kinds of markup that a card has."""
    from markdown_it import MarkdownIt

    tokens = MarkdownIt("commonmark", {"html": True}).enable("table").parse(ModelCard.load(card).text)
    return {token.type for token in tokens} | {part.type for token in tokens for part in token.children or ()}


def test_what_a_run_holds_is_no_markup_in_a_card(run: Path, tmp_path: Path) -> None:
    strange = Path(shutil.copytree(run, tmp_path / "run"))
    session = {"command": f"agon train {HOSTILE}", "versions": dict.fromkeys(("agon-env", "torch"), HOSTILE)}
    (strange / "sessions.jsonl").write_text(json.dumps(session) + "\n", encoding="utf-8")
    what = Export.of(strange, tmp_path / "out")
    export(replace(what, config=replace(what.config, env=HOSTILE), models=dict.fromkeys(what.models, HOSTILE)))
    for card in ("README.md", "alice/README.md"):
        text = (what.out / card).read_text(encoding="utf-8")
        assert not set("\x1b\u202e") & set(text)
        assert not markup(what.out / card) & {"html_block", "html_inline", "link_open", "hr"}
        assert "# Owned" not in text.split("\n")
        assert ModelCard.load(what.out / card).data.to_dict().get("license") is None
    rows = [line for line in (what.out / "README.md").read_text(encoding="utf-8").split("\n") if line.startswith("|")]
    assert len(rows) == 7 + 6  # of both tables: no text has ended its row


def test_names_stay_what_they_are_and_code_can_hold_whatever_it_is() -> None:
    assert as_name("ArithmeticDuel-v0-competitive_grpo-seed0") == "ArithmeticDuel-v0-competitive_grpo-seed0"
    assert as_name("a<b>") == "`a<b>`"
    assert as_code("plain") == "`plain`"
    assert as_code("a``b`") == "``` a``b` ```"
    assert as_code("a|b\nc") == "`a\\|b c`"


@pytest.mark.parametrize("broken", ["[]", "no json", '{"before": [], "after": 1}', '{"before": {"answer_pass1": "x"}}'])
def test_figures_that_are_none_are_left_out_or_told(
    run: Path, tmp_path: Path, broken: str, capsys: pytest.CaptureFixture[str]
) -> None:
    strange = Path(shutil.copytree(run, tmp_path / "run"))
    (strange / "summary.json").write_text(broken, encoding="utf-8")
    (strange / "sessions.jsonl").write_text('{"command": 7, "versions": []}\n', encoding="utf-8")
    if agon(["export", str(strange)]) == 0:
        assert "Before and after" not in (strange / "export" / "README.md").read_text(encoding="utf-8")
    else:
        assert "summary.json" in capsys.readouterr().err


def test_who_won_is_who_was_paid_more_and_nobody_wins_by_a_forfeit() -> None:
    from agon_env.types import Outcome

    def outcome(reason: str = "completed", **rewards: float | None) -> Outcome:
        return Outcome(rewards=rewards, scores=rewards, components={}, roles={}, reason=reason)

    assert winner_of(outcome(a=1.0, b=0.5)) == "a"
    assert winner_of(outcome(a=1.0, b=1.0)) is None
    assert winner_of(outcome(a=1.0, b=None)) is None
    assert winner_of(outcome("forfeit: no", a=1.0, b=0.0)) is None
    assert winner_of(outcome(a=1.0)) == "a"
    assert winner_of(outcome(a=0.0)) is None


def test_exporting_again_replaces_what_was_there(out: Path, run: Path) -> None:
    (out / "alice" / "left-over").write_text("old", encoding="utf-8")
    export(Export.of(run))
    assert not (out / "alice" / "left-over").exists()
    assert (out / "alice-merged").exists()


def test_mistakes_are_sentences(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "400")
    assert agon(["export", str(tmp_path)]) == 2
    assert "is not the folder of a run" in capsys.readouterr().err
    (tmp_path / "config.json").write_text((run / "config.json").read_text(encoding="utf-8"), encoding="utf-8")
    assert agon(["export", str(tmp_path)]) == 2
    assert "agon train --resume" in capsys.readouterr().err
    what = Export.of(run)
    with pytest.raises(FileNotFoundError, match="--keep-transcripts"):
        export(replace(what, run=tmp_path, out=tmp_path / "out"), sft=True)
