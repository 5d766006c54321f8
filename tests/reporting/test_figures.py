"""What is counted for the page of a run."""

from pathlib import Path

import pytest
from made_run import duel, duels, evaluation, make_run, write_json, write_lines

from algos.reporting.charts import curve_of_contests, curve_of_metric, pool_steps
from algos.reporting.comparison import comparison_charts, differing_settings, evaluation_tables, other_figures
from algos.reporting.curves import OBSERVE, held_out, training_charts
from algos.reporting.data import read_run
from algos.reporting.tables import before_after, length_chart, phases, reward_charts, reward_sources
from algos.statistics import Estimate, wilson


def test_a_point_pools_whole_rounds_of_the_seats() -> None:
    assert pool_steps([]) == []
    assert pool_steps([3, 5, 4]) == [range(3, 4), range(4, 5), range(5, 6)]
    assert {len(point) for point in pool_steps(range(100), most=40)} == {3, 1}
    pooled = pool_steps(range(100), rounds=2, most=40)
    assert {len(point) for point in pooled} == {4}
    assert [step for point in pooled for step in point] == list(range(100))


def test_shares_of_duels_are_counted_by_hand(tmp_path: Path) -> None:
    scores = [(0.0, 1.0), (0.0, 0.0), (1.0, 1.0), (1.0, 0.0), (1.0, 1.0), (None, None)]
    run = read_run(
        make_run(tmp_path / "run", [duel(0, i, scores=pair, problem=str(i)) for i, pair in enumerate(scores)], steps=1)
    )
    steps = pool_steps([0])
    found = {key: curve_of_contests(key, run.rows, steps, observe).values for key, observe in OBSERVE.items()}
    assert found == {
        "draft_pass1": [pytest.approx(3 / 5)],
        "answer_pass1": [pytest.approx(3 / 5)],
        "fix_rate": [pytest.approx(1 / 2)],
        "break_rate": [pytest.approx(1 / 3)],
    }


def test_a_metric_is_averaged_over_the_steps_that_have_it() -> None:
    metrics = [{"step": 0, "x": 1.0}, {"step": 1, "x": 3.0}, {"step": 2}, {"step": 3}, {"step": 4, "x": 5.0, "y": 7.0}]
    assert curve_of_metric("x", metrics, pool_steps(range(5), most=3), "x").values == [2.0, None, 5.0]
    assert curve_of_metric("both", metrics, pool_steps(range(5), most=3), "x", "y").values == [2.0, None, 6.0]


def test_evaluations_before_during_and_after_have_their_intervals(tmp_path: Path) -> None:
    run = read_run(make_run(tmp_path / "run", [], steps=4))
    found = held_out(run, "answer_pass1")
    assert list(found) == [0, 3, 4]
    assert found[0] == Estimate(0.3, 0.24, 0.36)
    assert found[3] == Estimate(0.5, *wilson(0.5, 256))
    assert found[4].value == 0.65


def test_an_interval_in_mid_training_knows_how_many_drafts_were_wrong(tmp_path: Path) -> None:
    folder = _without(make_run(tmp_path / "run", [], steps=1), "summary.json")
    figures = {"n": 200, "draft_pass1": 0.75, "fix_rate": 0.4, "break_rate": 0.1}
    write_lines(folder / "metrics.jsonl", [{"step": 1} | {f"eval/{name}": value for name, value in figures.items()}])
    run = read_run(folder)
    assert held_out(run, "fix_rate")[2] == Estimate(0.4, *wilson(0.4, 50))
    assert held_out(run, "break_rate")[2] == Estimate(0.1, *wilson(0.1, 150))


def test_the_table_names_what_changed(tmp_path: Path) -> None:
    run = read_run(make_run(tmp_path / "run", []))
    rows = {row.name: row for row in before_after(run)}
    change = rows["answers right"].change
    assert isinstance(change, Estimate)
    assert change.value == pytest.approx(0.35)
    assert change.excludes_zero
    assert rows["tokens of a text"].change == pytest.approx(3.5)
    assert before_after(read_run(_without(make_run(tmp_path / "other", []), "summary.json"))) == []


def test_reward_is_split_by_policy_and_seat(tmp_path: Path) -> None:
    lines = [
        duel(0, 0, scores=(0.0, 1.0), drafter="alice"),
        duel(1, 1, scores=(1.0, 0.0), drafter="alice"),
        duel(2, 2, scores=(1.0, 1.0), drafter="bob"),
    ]
    found = {(s.policy, s.role): s for s in reward_sources(read_run(make_run(tmp_path / "run", lines)).rows)}
    assert set(found) == {("alice", "drafter"), ("bob", "challenger"), ("bob", "drafter"), ("alice", "challenger")}
    drafts = found["alice", "drafter"]
    assert drafts.contests == 2
    assert drafts.reward is not None
    assert drafts.reward.value == pytest.approx(0.625)  # 0 and 1.25
    parts = {name: part.value for name, part in drafts.parts.items() if part is not None}
    assert parts == {"outcome": pytest.approx(0.5), "bonus": pytest.approx(0.125)}


def test_scores_are_set_against_length(tmp_path: Path) -> None:
    lines = [
        duel(0, n, draft="w " * (n + 1), answer="w " * 40, scores=(float(n >= 20), 1.0), problem=str(n)) for n in range(40)
    ]
    chart = length_chart(read_run(make_run(tmp_path / "run", lines, steps=1)).rows, most=4)
    assert chart is not None
    drafts, answers = chart.series
    assert drafts.values[0] == 0.0
    assert drafts.values[-2] == 1.0
    assert answers.values[:-1] == [None] * (len(chart.x) - 1)
    assert answers.values[-1] == 1.0
    assert chart.x == sorted(chart.x)
    assert chart.x_name == "tokens of a text"
    assert length_chart([]) is None


def test_characters_are_not_set_beside_tokens(tmp_path: Path) -> None:
    lines = [duel(0, n, draft="w " * (n + 1), answer="w " * 40, problem=str(n)) for n in range(40)]
    for line in lines:
        del line["events"][1]["tokens"]  # a scripted opponent's
    chart = length_chart(read_run(make_run(tmp_path / "some", lines, steps=1)).rows)
    assert chart is not None
    assert [one.name for one in chart.series] == ["drafter"]
    assert max(chart.x) <= 40
    for line in lines:
        del line["events"][0]["tokens"]
    chart = length_chart(read_run(make_run(tmp_path / "none", lines, steps=1)).rows)
    assert chart is not None
    assert chart.x_name == "characters of a text"
    assert [one.name for one in chart.series] == ["drafter", "challenger"]


def test_the_phases_add_up_to_the_time_of_the_steps(tmp_path: Path) -> None:
    *parts, everything = phases(read_run(make_run(tmp_path / "run", [], steps=4)))
    assert everything.seconds == pytest.approx(4 * 1.3)
    assert sum(part.seconds for part in parts) == pytest.approx(everything.seconds)
    assert sum(part.share for part in parts) == pytest.approx(1)


def test_without_contests_the_curves_are_those_of_the_metrics(tmp_path: Path) -> None:
    run = read_run(_without(make_run(tmp_path / "run", steps=4), "contests.jsonl"))
    charts = {
        chart.title: chart for chart in [*training_charts(run, pool_steps(range(4))), *reward_charts(run, pool_steps(range(4)))]
    }
    assert [one.name for one in charts["Right texts in training"].series] == ["drafts right", "answers right"]
    assert charts["Right texts in training"].series[0].low == []
    assert charts["Reward"].series[0].values == [pytest.approx(0.3 + 0.1 * step) for step in range(4)]
    assert all("alice from alice" not in {one.name for one in chart.series} for chart in charts.values())


def test_contests_of_some_steps_alone_make_no_curve(tmp_path: Path) -> None:
    kept = [line for line in duels(32, steps=4) if line["step"] != 2]
    assert not read_run(make_run(tmp_path / "some", kept, steps=4)).keeps_contests
    assert read_run(make_run(tmp_path / "all", steps=4)).keeps_contests


def test_runs_are_compared_by_what_differs(tmp_path: Path) -> None:
    one = make_run(tmp_path / "one", steps=4, after=0.5)
    other = make_run(tmp_path / "other", steps=6, after=0.7, config={"seed": 1, "optim": {"learning_rate": 0.01}})
    runs = {"one": read_run(one), "other": read_run(other)}
    assert differing_settings(runs.values()) == {
        "seed": ["0", "1"],
        "steps": ["4", "6"],
        "optim.learning_rate": ["0.001", "0.01"],
    }
    tables = {table.name: table for table in evaluation_tables(runs)}
    first, second = tables["answers right"].rows
    assert first.against_first is None
    assert second.against_first is not None
    assert second.against_first.value == pytest.approx(0.2)
    assert not tables["answers right"].other_problems
    lengths = {figure.name: figure.values for figure in other_figures(runs.values())}["tokens of a text"]
    assert lengths == [(23.0, 25.0), (23.0, 27.0)]
    charts = {chart.title: chart for chart in comparison_charts(runs, pool_steps(range(6)))}
    for title in ("Held out: answers right", "In training: wrong drafts fixed", "Tokens of a text", "Time of a step"):
        assert [one.name for one in charts[title].series] == ["one", "other"]
    assert charts["In training: drafts right"].series[0].values[4:] == [None, None]


def test_runs_that_were_judged_otherwise_are_marked(tmp_path: Path) -> None:
    runs = {name: read_run(make_run(tmp_path / name, [], config={"eval_problems": n})) for name, n in (("a", 64), ("b", 128))}
    assert all(table.other_problems for table in evaluation_tables(runs))


def test_a_game_without_drafts_has_no_fixes(tmp_path: Path) -> None:
    lines = [duel(0, number) for number in range(4)]
    for line in lines:
        line["roles"] = {"alice": "proposer", "bob": "solver"}
        line["duel"] = None
    folder = make_run(tmp_path / "run", lines, steps=1)
    write_json(folder / "summary.json", {"before": evaluation(0.2), "after": evaluation(0.3)})
    names = [row.name for row in before_after(read_run(folder))]
    assert names[:2] == ["score of proposer", "score of solver"]
    assert not {"wrong drafts fixed", "right drafts broken"} & set(names)


def _without(folder: Path, name: str) -> Path:
    (folder / name).unlink()
    return folder
