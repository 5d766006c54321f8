"""Contests as a `datasets.Dataset`."""

from __future__ import annotations

import pytest

pytest.importorskip("datasets", reason="needs datasets: pip install 'agon-env[hub]'")

from small_games import Nim

import agon_env
from agon_env.errors import TranscriptError
from agon_env.transcript import load


def duel(*texts, seed=0):
    env = agon_env.make("ArithmeticDuel-v0", reward="competitive")
    env.reset(seed=seed)
    for text in texts:
        env.step(text)
    return env


def test_a_row_holds_a_move_with_what_was_read_and_paid(tmp_path):
    env = duel("a draft", agon_env.Action("no idea", truncated=True))
    shown = [env.observe("alice").messages, env.observe("bob").messages]
    env.transcript.save(tmp_path / "contests.jsonl")
    duel("7", seed=1).transcript.save(tmp_path / "contests.jsonl")
    rows = agon_env.to_dataset(load(tmp_path / "contests.jsonl")).to_list()
    assert [row["contest"] for row in rows] == [0, 0, 1]
    assert [tuple(row["prompt"]) for row in rows[:2]] == shown
    assert rows[1]["completion"] == [{"role": "assistant", "content": "no idea"}]
    assert [rows[1][name] for name in ("env", "seed", "turn", "player", "role")] == [
        "ArithmeticDuel-v0",
        0,
        1,
        "bob",
        "challenger",
    ]
    assert (rows[1]["truncated"], rows[1]["reward"], rows[1]["score"], rows[1]["reason"]) == (True, 0.0, 0.0, "completed")
    assert (rows[2]["reward"], rows[2]["reason"]) == (None, None)
    assert rows == agon_env.to_dataset([env, duel("7", seed=1)]).to_list()


def test_prompts_can_be_left_out_and_must_be_where_a_contest_cant_be_made_again():
    env = Nim()
    env.reset(seed=0)
    env.step("nine")
    env.step("1")
    with pytest.raises(TranscriptError, match=r"agon_env\.make"):
        agon_env.to_dataset([env])
    data = agon_env.to_dataset([env], prompts=False)
    assert "prompt" not in data.column_names
    assert [row["invalid"] for row in data] == ["say one of 1, 2, 3", None]


def test_a_seed_that_no_column_holds_is_named():
    seeds = [0, 2**63 - 1]
    assert agon_env.to_dataset([duel("7", seed=seed) for seed in seeds])["seed"][:] == seeds
    with pytest.raises(TranscriptError, match=r"contest 1 has the seed 9223372036854775808.* below 2\*\*63"):
        agon_env.to_dataset([duel("7"), duel("7", seed=2**63)])


def test_any_text_can_be_stored(tmp_path):
    said = "a\u2028b \ud800 c \U0001f642 <|im_end|>"
    data = agon_env.to_dataset([duel(said)])
    data.save_to_disk(tmp_path / "data")
    assert data[0]["completion"][0]["content"] == "a\u2028b \ufffd c \U0001f642 <|im_end|>"


def test_no_contests_make_an_empty_data_set_with_the_same_columns():
    assert agon_env.to_dataset([]).features == agon_env.to_dataset([duel("x")]).features
