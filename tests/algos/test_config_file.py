"""A run in one file: written, read back, overridden; and what is wrong in one is said."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from algos.commands.train import main, parse
from algos.config import PRESETS, TINY, TrainConfig
from algos.errors import ConfigError
from algos.training.config_file import read_config_file, write_config_file


@pytest.mark.parametrize("ending", ["yaml", "yml", "json"])
@pytest.mark.parametrize("preset", PRESETS.values(), ids=list(PRESETS))
def test_every_preset_comes_back_as_it_was(preset: TrainConfig, ending: str, tmp_path: Path) -> None:
    path = tmp_path / "new folder" / f"run.{ending}"
    write_config_file(preset, path)
    other = replace(TINY, steps=7, env_options=("difficulty=3",), max_rows=5, thinking=True)
    assert read_config_file(path, default=TINY) == preset
    assert read_config_file(path, default=other) == preset  # a written file is complete


def test_odd_values_come_back_as_they_were(tmp_path: Path) -> None:
    odd = replace(
        TINY,
        env_options=('difficulty=[1, "zwei"]', "note=#: - {}"),
        name="yes",
        max_rows=None,
        thinking=False,
        optim=replace(TINY.optim, learning_rate=1e-7, betas=(0.9, 0.95)),
    )
    for ending in ("yaml", "json"):
        write_config_file(odd, tmp_path / f"run.{ending}")
        assert read_config_file(tmp_path / f"run.{ending}", default=TINY) == odd


def test_the_command_line_writes_a_file_and_overrides_what_it_reads(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "run.yaml"
    assert main(["--preset", "smollm2", "--optim.learning-rate", "3e-5", "--write-config", str(file)]) == 0
    assert "run.yaml" in capsys.readouterr().out
    config = parse(["--config", str(file), "--steps", "10", "--optim.warmup-steps", "1"]).run
    smollm2 = PRESETS["smollm2"]
    optim = replace(smollm2.optim, learning_rate=3e-5, warmup_steps=1)
    assert config == replace(smollm2, steps=10, optim=optim)


def test_a_short_file_is_laid_over_the_preset(tmp_path: Path) -> None:
    file = tmp_path / "short.yaml"
    file.write_text("steps: 3\noptim:\n  learning_rate: 1e-4  # a text to YAML, which wants 1.0e-4\n", encoding="utf-8")
    smollm2 = PRESETS["smollm2"]
    assert parse(["--config", str(file)]).run == replace(TINY, steps=3, optim=replace(TINY.optim, learning_rate=1e-4))
    assert parse(["--config", str(file), "--preset", "smollm2"]).run == replace(smollm2, steps=3)
    (tmp_path / "empty.yaml").write_text("# nothing yet\n", encoding="utf-8")
    assert parse(["--config", str(tmp_path / "empty.yaml")]).run == TINY


@pytest.mark.parametrize(
    ("record", "message"),
    [
        ({"stpes": 3}, "has no field 'stpes'.*Did you mean 'steps'"),
        ({"group-size": 3}, "Did you mean 'group_size'"),
        ({"learning_rate": 1e-4}, "Did you mean 'critic.learning_rate' or 'optim.learning_rate'"),
        ({"optim": {"learning_rat": 1e-4}}, r"no field 'optim.learning_rat'.*Did you mean 'optim.learning_rate'"),
        ({"zzzzqqq": 1}, "has no field 'zzzzqqq'; it was written by another version, or misspelt.$"),
        ({"steps": "ten"}, "steps must be a whole number, not 'ten'"),
        ({"steps": True}, "steps must be a whole number, not True"),
        ({"steps": 1.5}, "steps must be a whole number"),
        ({"steps": None}, "steps must be a whole number, not None"),
        ({"max_rows": "all"}, "max_rows must be a whole number or null, not 'all'"),
        ({"temperature": "hot"}, "temperature must be a number, not 'hot'"),
        ({"swap_roles": "maybe"}, "swap_roles must be true or false"),
        ({"normalize": "max"}, "normalize must be one of 'std', 'mean', not 'max'"),
        ({"env_options": "difficulty=3"}, "env_options must be a list of values, each a text, not 'difficulty=3'"),
        ({"env_options": [3]}, "env_options must be a text, not 3"),
        ({"optim": {"betas": [0.9]}}, "optim.betas must be a list of 2 values, each a number"),
        ({"optim": {"learning_rate": 10**400}}, "optim.learning_rate must be a number"),
        ({"optim": 3}, "optim must be a mapping"),
        ({"temperature": float("inf")}, "temperature must be a finite number"),
        ([1, 2], "must be a mapping of fields to values"),
    ],
)
def test_what_is_wrong_in_a_file_is_named(record: object, message: str, tmp_path: Path) -> None:
    file = tmp_path / "run.yaml"
    file.write_text(json.dumps(record).replace("Infinity", ".inf"), encoding="utf-8")
    with pytest.raises(ConfigError, match=message) as wrong:
        read_config_file(file, default=TINY)
    assert str(file) in str(wrong.value)


def test_files_that_are_none_are_refused(tmp_path: Path) -> None:
    (tmp_path / "torn.yaml").write_text("steps: [1, 2", encoding="utf-8")
    with pytest.raises(ConfigError, match=r"torn.yaml is neither YAML nor JSON"):
        parse(["--config", str(tmp_path / "torn.yaml")])
    (tmp_path / "date.yaml").write_text("name: 2026-13-45", encoding="utf-8")
    with pytest.raises(ConfigError, match=r"date.yaml is neither YAML nor JSON"):
        parse(["--config", str(tmp_path / "date.yaml")])
    (tmp_path / "code.yaml").write_text("steps: !!python/object/apply:os.getcwd []", encoding="utf-8")
    with pytest.raises(ConfigError, match="neither YAML nor JSON"):
        parse(["--config", str(tmp_path / "code.yaml")])
    with pytest.raises(FileNotFoundError, match="no config file"):
        parse(["--config", str(tmp_path / "none.yaml")])
    with pytest.raises(ConfigError, match="goes on with its own config"):
        parse(["--resume", str(tmp_path), "--preset", "tiny"])
    with pytest.raises(ConfigError, match=r"is written as \.yaml or \.json"):
        write_config_file(TINY, tmp_path / "run.toml")
