"""The table of the paper in small: every row is trained and judged, what is finished is not done again."""

import dataclasses
import importlib.metadata
import io
import json
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

import agon_env
from algos.commands.matrix import parse
from algos.config import TINY, read_options
from algos.errors import ConfigError
from algos.evaluate import evaluate
from algos.learning.optim import OptimConfig
from algos.matrix.matrix import MatrixConfig, judge, run_matrix
from algos.matrix.report import markdown, summarise
from algos.matrix.rows import CELLS, ROWS, VARIANTS, trainings
from algos.playing.problem_order import problem_index
from algos.training.console import RunConsole

SMALL = MatrixConfig(
    train=dataclasses.replace(TINY, env_options=("difficulty=3",), problems=2, group_size=2, max_tokens=40, lora_rank=2),
    seeds=2,
    budget=300,
    problems=6,
    rows=("zero_shot", "zero_shot_majority", "moa", "ppo", "grpo", "grpo_self_cascade", "no_exchange", "agon"),
)


def quiet() -> RunConsole:
    return RunConsole(Console(file=io.StringIO(), width=100))


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> MatrixConfig:
    config = dataclasses.replace(SMALL, output_dir=str(tmp_path_factory.mktemp("matrix")))
    run_matrix(config, console=quiet())
    return config


def test_every_row_is_judged_on_the_same_problems_and_trained_with_the_same_budget(finished: MatrixConfig) -> None:
    folder = Path(finished.output_dir)
    cells = [json.loads(file.read_text(encoding="utf-8")) for file in sorted((folder / "cells").glob("*.json"))]
    assert len(cells) == len(SMALL.rows) * SMALL.seeds
    assert len({tuple(cell["problems"]) for cell in cells}) == 1
    assert all(len(cell["scores"]) == SMALL.problems for cell in cells)
    for cell in cells:
        if cell["training"]["name"] is None:
            assert cell["training"]["tokens"] == 0
        else:  # the step that passes the budget is finished
            assert SMALL.budget <= cell["training"]["tokens"] < SMALL.budget + 2 * 4 * SMALL.train.max_tokens


def test_every_seed_trains_and_answers_with_luck_of_its_own(finished: MatrixConfig) -> None:
    folder = Path(finished.output_dir)
    cells = [json.loads((folder / "cells" / f"zero_shot-seed{n}.json").read_text(encoding="utf-8")) for n in range(SMALL.seeds)]
    assert len({cell["figures"]["mean_tokens"] for cell in cells}) == SMALL.seeds  # the same base on the same problems
    for name in ("grpo", "agon"):
        runs = [folder / "runs" / f"{name}-seed{number}" for number in range(SMALL.seeds)]
        assert [json.loads((run / "config.json").read_text(encoding="utf-8"))["seed"] for run in runs] == [0, 1]
        assert len({(run / "alice" / "adapter_model.safetensors").read_bytes() for run in runs}) == SMALL.seeds


def test_what_a_row_shows_is_counted_from_its_scores(finished: MatrixConfig) -> None:
    folder = Path(finished.output_dir)
    results = json.loads((folder / "results.json").read_text(encoding="utf-8"))
    scores = [
        score
        for seed in range(SMALL.seeds)
        for score in json.loads((folder / "cells" / f"agon-seed{seed}.json").read_text(encoding="utf-8"))["scores"]
    ]
    assert results["rows"]["agon"]["pass1"]["value"] == pytest.approx(sum(scores) / len(scores))
    assert {(d["row"], d["minus"]) for d in results["differences"]} == {
        ("grpo", "zero_shot"),
        ("moa", "zero_shot"),
        ("agon", "grpo"),
        ("agon", "grpo_self_cascade"),
        ("agon", "no_exchange"),
    }
    table = (folder / "table.md").read_text(encoding="utf-8")
    assert all(CELLS[name].title in table for name in SMALL.rows)
    assert (folder / "table.png").stat().st_size > 10_000


def test_a_second_call_does_nothing_again_and_a_lost_cell_is_judged_again(finished: MatrixConfig) -> None:
    folder = Path(finished.output_dir)
    cells = {file: file.stat().st_mtime_ns for file in (folder / "cells").iterdir()}
    runs = {file: file.stat().st_mtime_ns for file in (folder / "runs").glob("*/*")}
    before = json.loads((folder / "results.json").read_text(encoding="utf-8"))
    run_matrix(finished, console=quiet())
    assert json.loads((folder / "results.json").read_text(encoding="utf-8")) == before
    lost = folder / "cells" / "agon-seed1.json"
    lost.unlink()
    run_matrix(finished, console=quiet())
    changed = {file for file in cells if file.stat().st_mtime_ns != cells[file]}
    assert changed == {lost}
    assert {file: file.stat().st_mtime_ns for file in (folder / "runs").glob("*/*")} == runs
    after = json.loads((folder / "results.json").read_text(encoding="utf-8"))
    assert after.pop("sessions")[:-1] == before.pop("sessions")
    assert after == before


def test_the_results_say_where_they_come_from(finished: MatrixConfig) -> None:
    results = json.loads((Path(finished.output_dir) / "results.json").read_text(encoding="utf-8"))
    made = results["sessions"][0]
    assert made["versions"]["torch"] == importlib.metadata.version("torch")
    assert made["machine"]["cores"] >= 1
    assert made["command"]
    assert made["source"].keys() == {"code", "folder"}


def test_another_matrix_does_not_go_into_the_same_folder(finished: MatrixConfig) -> None:
    with pytest.raises(ConfigError, match="another budget"):
        run_matrix(dataclasses.replace(finished, budget=500), console=quiet())


def test_a_run_that_was_stopped_goes_on(finished: MatrixConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from algos.trainer import Interrupted
    from algos.training.run import Run

    config = dataclasses.replace(finished, output_dir=str(tmp_path), rows=("grpo",), seeds=1)
    config = dataclasses.replace(config, train=dataclasses.replace(config.train, checkpoint_every=1))
    advance, steps = Run.advance, []

    def stops(run: Run) -> object:
        if steps:
            raise KeyboardInterrupt
        steps.append(run.step)
        return advance(run)

    monkeypatch.setattr(Run, "advance", stops)
    with pytest.raises(Interrupted):
        run_matrix(config, console=quiet())
    assert not list((tmp_path / "cells").iterdir())
    monkeypatch.setattr(Run, "advance", advance)
    run_matrix(config, console=quiet())
    went_on, whole = (Path(each.output_dir) / "cells" / "grpo-seed0.json" for each in (config, finished))
    assert json.loads(went_on.read_text(encoding="utf-8"))["scores"] == json.loads(whole.read_text(encoding="utf-8"))["scores"]


def test_every_training_generates_as_many_texts_for_a_problem() -> None:
    for name in trainings(TINY):
        config = MatrixConfig().run_config(name, 0)
        texts = config.group_size * config.answers
        if config.env == MatrixConfig().train.env:  # a duel also drafts
            texts += config.group_size
        assert texts in (2 * TINY.group_size, 2 * TINY.group_size + 1), name


def test_rows_and_numbers_that_can_not_be_are_refused() -> None:
    for changes, message in (
        ({"rows": ("nobody",)}, "no row 'nobody'"),
        ({"rows": ()}, "at least one row"),
        ({"seeds": 0}, "seeds must be at least 1"),
        ({"train": dataclasses.replace(TINY, env="ArithmeticSolo-v0")}, "no Duel in its name"),
        ({"rows": ("agon_two_bases",)}, r"name the second one, train\.rival_models"),
        (
            {"rows": ("agon_nested",), "train": dataclasses.replace(TINY, group_size=5)},
            "would generate 8 .* = 10 as",
        ),
        ({"rows": ("agon",), "train": dataclasses.replace(TINY, answers=2)}, "agon would generate 24 .* = 16 as"),
        ({"rows": ("agon_shared",), "train": dataclasses.replace(TINY, group_size=1, answers=2)}, "a group needs two turns"),
        ({"train": dataclasses.replace(TINY, opponent="pool:recent")}, r"leave out train\.opponent"),
        ({"train": dataclasses.replace(TINY, swap_roles=False)}, "take the row agon_fixed"),
        ({"train": dataclasses.replace(TINY, optim=OptimConfig(schedule="linear"))}, r"leave out train\.optim\.schedule"),
    ):
        with pytest.raises(ConfigError, match=message):
            dataclasses.replace(SMALL, **changes)


def test_the_command_line_overrides_the_preset() -> None:
    args = ["--preset", "smollm2", "--seeds", "5", "--train.problems", "3", "--rows", "grpo", "agon"]
    config = parse(args, description="", prog=None)
    assert (config.train.model, config.train.problems, config.seeds, config.rows) == ("smollm2-135m", 3, 5, ("grpo", "agon"))


def test_unknown_scores_are_left_out_of_a_mean() -> None:
    cell = {
        "problems": ["a", "b"],
        "scores": [1.0, None],
        "training": {"tokens": 0, "steps": 0},
        "figures": {"tokens_per_answer": 3.0},
    }
    results = summarise({"zero_shot": [cell]}, dataclasses.replace(SMALL, seeds=1))
    assert results["rows"]["zero_shot"]["pass1"]["value"] == 1.0
    assert "| zero-shot | 100.0 [100.0, 100.0] | 3.0 | 0 |" in markdown(results, brief=True)
    other = {**cell, "problems": ["b", "a"]}
    with pytest.raises(ValueError, match="not judged on the same problems"):
        summarise({"zero_shot": [cell], "moa": [other]}, dataclasses.replace(SMALL, seeds=1))


def test_every_row_has_its_training_and_every_training_a_row() -> None:
    assert {cell.training for cell in ROWS.values()} == {None, *trainings(TINY)}
    assert set(MatrixConfig().rows) == set(CELLS)
    assert not set(CELLS) & set(VARIANTS)


def test_a_variant_changes_one_thing_of_the_method() -> None:
    config = MatrixConfig()
    method = config.run_config("agon", 0).to_dict()
    for name, changed in {
        "agon_bonus_1": {"env_options"},
        "agon_answer": {"env_options"},
        "agon_pool": {"opponent", "opponent_share", "snapshot_every"},
        "agon_shared": {"group_size", "answers"},
        "agon_nested": {"group_size", "answers"},
        "agon_by_draft": {"group_size", "answers", "group_by"},
        "agon_mean": {"normalize"},
        "agon_last": {"update"},
        "agon_fixed": {"swap_roles"},
    }.items():
        variant = config.run_config(name, 0).to_dict()
        assert {key for key in variant if variant[key] != method[key]} - {"name"} == changed


def test_a_row_may_show_less_of_a_draft_when_it_is_judged(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = []

    def look(make: Any, *args: Any, **kwargs: Any) -> Any:
        shown.append(make().reveal)
        return evaluate(make, *args, **kwargs)

    monkeypatch.setattr("algos.matrix.matrix.evaluate", look)
    for name in ("moa", "moa_answer"):
        judge(SMALL, ROWS[name], run=None, seed=0)
    assert shown == ["draft", "answer"]


def test_fresh_problems_are_asked_for_by_options_of_the_contest() -> None:
    usual = judge(SMALL, CELLS["zero_shot"], run=None, seed=0)
    fresh = judge(dataclasses.replace(SMALL, held_out_options=("seed=1",)), CELLS["zero_shot"], run=None, seed=0)
    assert len(usual["problems"]) == len(fresh["problems"]) == SMALL.problems
    assert not set(usual["problems"]) & set(fresh["problems"])


@pytest.mark.parametrize("name", ["zero_shot", "moa"])
def test_no_row_is_judged_on_what_it_could_train_on(name: str) -> None:
    training = agon_env.make(SMALL.train.env, **read_options(SMALL.train.env_options))
    trained_on = {training.task[problem_index(place, size=training.task.size, seed=0)].id for place in range(300)}
    assert not trained_on & set(judge(SMALL, CELLS[name], run=None, seed=0)["problems"])


@pytest.mark.parametrize(
    ("name", "training", "roles", "answers"),
    [
        ("zero_shot_majority", None, ("solver",), 2),
        ("grpo", "grpo", ("solver",), 1),
        ("grpo_self_cascade", "grpo", ("drafter", "challenger"), 1),
        ("agon", "agon", ("drafter", "challenger"), 1),
        ("agon_single", "agon", ("solver",), 1),
    ],
)
def test_a_deployment_plays_its_contest_and_pays_for_its_answers(
    finished: MatrixConfig,
    name: str,
    training: str | None,
    roles: tuple[str, ...],
    answers: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    played = []

    def spy(*args: Any, **options: Any) -> Any:
        found, contests = evaluate(*args, **options)
        played.append(found)
        return found, contests

    monkeypatch.setattr("algos.matrix.matrix.evaluate", spy)
    run = None if training is None else Path(finished.output_dir) / "runs" / f"{training}-seed0"
    cell = judge(finished, CELLS[name], run=run, seed=0)
    (found,) = played
    assert {record.roles for record in found.records} == {roles}
    assert len(found.records) == answers * len(cell["scores"])
    spent = sum(sum(record.tokens.values()) for record in found.records)
    assert cell["figures"]["tokens_per_answer"] == pytest.approx(spent / len(cell["scores"]))


def test_policies_with_seats_of_their_own_keep_them_when_they_are_judged(
    finished: MatrixConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    drafters = []

    def spy(*args: Any, **options: Any) -> Any:
        found, contests = evaluate(*args, **options)
        drafters.append({record.players["drafter"] for record in found.records})
        return found, contests

    monkeypatch.setattr("algos.matrix.matrix.evaluate", spy)
    for name in ("agon_fixed", "agon"):
        judge(finished, ROWS[name], run=Path(finished.output_dir) / "runs" / "agon-seed0", seed=0)
    assert drafters == [{"alice"}, {"alice", "bob"}]
