"""What is read from the folder of a run, also from one that is hostile or half written."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from made_run import KINDS, duel, duels, make_run, write_lines

import agents
import agon_env
from agents.sampling import SamplingParams
from algos.errors import ConfigError
from algos.reporting import data
from algos.reporting.browser import browser_data
from algos.reporting.contests import Seat, choose, kind_of, read_rows, read_whole
from algos.reporting.data import read_run
from algos.rollouts import Start, rollout
from algos.training.contest_log import CONTESTS, contest_lines


def seat(score: float | None, reward: float | None = 0.0, role: str = "drafter") -> Seat:
    return Seat(role=role, policy="alice", score=score, reward=reward, parts={}, length=1, tokens=True)


def test_what_training_writes_is_read(tmp_path: Path) -> None:
    players = {"alice": agents.as_agent(lambda obs: "\\boxed{no \ud800}"), "bob": agents.as_agent(lambda obs: r"\boxed{1}")}
    starts = [Start(seed=seed, options={}) for seed in range(6)]
    played = rollout(lambda: agon_env.make("ArithmeticDuel-v0"), players, starts, params=SamplingParams(), seed=0)
    (tmp_path / CONTESTS).write_text("".join(line + "\n" for line in contest_lines(3, played)), encoding="ascii")
    rows = read_rows(tmp_path / CONTESTS)
    assert [row.step for row in rows] == [3] * 6
    for row, contest in zip(rows, played.contests, strict=True):
        assert contest.outcome is not None
        assert {seat.role: seat.score for seat in row.seats} == {
            role: contest.outcome.scores[contest.player_of[role]] for role in contest.roles
        }
        assert row.seats[0].policy == f"{contest.player_of['drafter']} (no policy)"
    shown = browser_data(rows, read_whole(tmp_path / CONTESTS, rows))
    for contest, one in zip(played.contests, shown["contests"], strict=True):
        assert [shown["texts"][turn["text"]] for turn in one["turns"]] == [event.text for event in contest.transcript.events]
        assert shown["texts"][one["prompt"]] == contest.observe(contest.player_of["drafter"]).text
        assert contest.outcome is not None
        assert one["gold"] == contest.outcome.details["answer"]
    assert data.CONTESTS == CONTESTS


@pytest.mark.parametrize(("scores", "kind"), KINDS.items())
def test_a_duel_is_called_by_what_reading_the_draft_did(scores: tuple[bool, bool], kind: str) -> None:
    draft, answer = map(float, scores)
    assert kind_of([seat(draft), seat(answer, role="challenger")]) == kind


def test_other_games_are_called_by_who_won() -> None:
    assert kind_of([seat(1.0)]) == "right"
    assert kind_of([seat(0.4)]) == "wrong"
    assert kind_of([seat(0.0, 1.0, role="x"), seat(0.0, -1.0, role="o")]) == "won by x"
    assert kind_of([seat(0.0, 1.0, role="x"), seat(0.0, 1.0, role="o"), seat(0.0, 0.5, role="z")]) == "draw"
    assert kind_of([seat(None), seat(1.0, role="challenger")]) == "unscored"


def test_contests_are_chosen_evenly_and_within_bounds(tmp_path: Path) -> None:
    write_lines(tmp_path / CONTESTS, duels(400, steps=50))
    rows = read_rows(tmp_path / CONTESTS)
    assert choose(rows, most=1000, most_bytes=10**9) == rows
    some = choose(rows, most=100, most_bytes=10**9)
    assert np.bincount([row.step for row in some], minlength=50).tolist() == [2] * 50
    few = choose(rows, most=1000, most_bytes=rows[0].size * 20)
    assert 10 <= len(few) <= 20
    assert sum(row.size for row in few) <= rows[0].size * 20
    assert [record["seed"] for record in read_whole(tmp_path / CONTESTS, few)] == [
        row.step * 10_000 + rows.index(row) for row in few
    ]


def test_a_contest_without_an_outcome_is_unscored(tmp_path: Path) -> None:
    write_lines(tmp_path / CONTESTS, [duel(0, 0) | {"outcome": None, "duel": None}])
    rows = read_rows(tmp_path / CONTESTS)
    assert [row.kind for row in rows] == ["unscored"]
    assert browser_data(rows, read_whole(tmp_path / CONTESTS, rows))["contests"][0]["gold"] is None


def test_a_torn_last_line_is_left_out(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", [duel(0, number) for number in range(3)])
    for name in ("contests.jsonl", "metrics.jsonl"):
        text = (run / name).read_text(encoding="utf-8")
        (run / name).write_text(text[:-20], encoding="utf-8")
    read = read_run(run)
    assert len(read.rows) == 2
    assert len(read.metrics) == 3


def test_a_text_occurs_once_in_a_page_however_often_it_was_read(tmp_path: Path) -> None:
    lines = [duel(0, number, draft="one draft", answer=f"answer {number}") for number in range(4)]
    write_lines(tmp_path / CONTESTS, lines)
    rows = read_rows(tmp_path / CONTESTS)
    shown = browser_data(rows, lines)
    assert sorted(shown["texts"]) == sorted([lines[0]["prompt"], "one draft", *(f"answer {number}" for number in range(4))])


def second_line(**changed: Any) -> str:
    """Return a file of which the second line is broken: an empty object, or a contest with fields that are changed."""
    broken = duel(0, 1) | changed if changed else {}
    return f"{json.dumps(duel(0, 0))}\n{json.dumps(broken)}\n"


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("config.json", "[1]"),
        ("config.json", "{"),
        ("summary.json", '"no"'),
        ("metrics.jsonl", '{"step": 0}\n{"step": "1"}\n'),
        ("metrics.jsonl", '{"step": 0}\n{"step": 1e99}\n'),
        ("metrics.jsonl", '{"step": 0}\n[]\n'),
        ("metrics.jsonl", '{"step": 0}\n{"step": 1, "x": \n'),
        ("contests.jsonl", second_line()),
        ("contests.jsonl", second_line(roles={})),
        ("contests.jsonl", second_line(roles={"eve": "drafter"})),
        ("contests.jsonl", second_line(events=3)),
        ("contests.jsonl", second_line(events=[{"player": "alice", "text": ["<b>"]}])),
        ("contests.jsonl", second_line(step=-1)),
        ("contests.jsonl", "\n".join([json.dumps(duel(0, 0)), "[" * 100_000, ""])),
    ],
)
def test_a_broken_file_is_named(tmp_path: Path, name: str, text: str) -> None:
    run = make_run(tmp_path / "run", [])
    (run / name).write_text(text, encoding="utf-8")
    where = name if name.endswith(".json") else f"{name}, line 2"
    with pytest.raises(ConfigError, match=where):
        read_run(run)


def test_what_is_no_number_is_no_metric(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", [])
    odd = {"nan": float("nan"), "infinite": float("-inf"), "huge": 10**400, "text": "<b>", "null": None, "flag": True}
    write_lines(run / "metrics.jsonl", [{"step": 0, "good": 2, **odd}])
    assert read_run(run).metrics == ({"step": 0.0, "good": 2.0},)
