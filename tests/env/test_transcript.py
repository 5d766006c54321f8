"""Transcripts: writing, reading, torn and foreign files, replay and rescore."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from toys import Doubling, Nim

import agon_env
from agon_env import transcript
from agon_env.errors import TranscriptError
from agon_env.games import DraftChallenge
from agon_env.registration import ContestSpec
from agon_env.transcript import load, replay, rescore
from agon_env.types import Action

NASTY = [
    "\u2028",
    "\u2029",
    "\x85",
    "\x1c",
    "\v",
    "\f",
    "\r",
    "\r\n",
    "\n",
    "\ud800",
    "\udfff",
    "\x00",
    '"',
    "\\",
    "é🙂",
    "<|im_end|>",
]


@pytest.fixture
def registered(monkeypatch):
    """The toys are registered for one test."""
    monkeypatch.setitem(agon_env.registry, "toys/Nim-v0", ContestSpec("toys/Nim-v0", "toys:Nim"))
    monkeypatch.setitem(agon_env.registry, "toys/Duel-v0", ContestSpec("toys/Duel-v0", _duel))


def _duel(**options):
    return DraftChallenge(Doubling(), **options)


def played(*texts, env=None, seed=0, options=None):
    env = env or DraftChallenge(Doubling())
    env.reset(seed=seed, options=options)
    for text in texts:
        env.step(text)
    return env.transcript


@given(st.lists(st.sampled_from(NASTY) | st.text(max_size=5), max_size=8).map("".join), st.text())
def test_any_text_survives(tmp_path_factory, one, two):
    path = tmp_path_factory.mktemp("t") / "duel.jsonl"
    original = played(one, two)
    original.save(path)
    assert path.read_bytes().count(b"\n") == 4
    (back,) = load(path)
    joined = one.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")
    assert [event.text for event in back.events] == [joined, two]
    if joined == one:
        assert back == original


def test_many_contests_share_a_file(tmp_path):
    path = tmp_path / "duels.jsonl"
    originals = [played("a", "b", seed=seed) for seed in range(3)] + [played("unfinished")]
    for original in originals:
        original.save(path)
    assert load(path) == originals
    assert load(path)[-1].outcome is None


def test_a_missing_reward_stays_missing(tmp_path):
    original = played("unscorable", "b")
    original.save(tmp_path / "t.jsonl")
    (back,) = load(tmp_path / "t.jsonl")
    assert back.outcome.rewards == {"alice": None, "bob": None}
    assert back.outcome == original.outcome


def test_the_header_tells_how_to_play_again(tmp_path, registered):
    env = agon_env.make("toys/Duel-v0", bonus=0.25)
    header = played("a", "b", env=env, seed=5, options={"index": 3}).header
    assert (header.env, header.kwargs, header.seed, header.options) == ("toys/Duel-v0", {"bonus": 0.25}, 5, {"index": 3})
    assert header.roles == {"alice": "drafter", "bob": "challenger"}
    assert header.details["source"] == "made for the tests"
    assert set(header.versions) == {"agon-env"}


# --- damaged files ----------------------------------------------------------------------------------


def test_a_torn_last_line_is_skipped_and_cut_off_by_the_next_save(tmp_path):
    path = tmp_path / "t.jsonl"
    first, second = played("a", "b"), played("c", "d")
    first.save(path)
    whole = path.read_bytes()
    lines = list(second.to_lines())
    torn = "\n".join(lines[:2]) + "\n" + lines[2][:30]
    path.write_bytes(whole + torn.encode())
    assert load(path)[0] == first
    assert [event.text for event in load(path)[1].events] == ["c"]
    second.save(path)
    assert load(path)[-1] == second
    assert len(load(path)) == 3


@pytest.mark.parametrize("length", [1, 5, 200, 10_000])
def test_a_file_may_be_torn_anywhere(tmp_path, length):
    path = tmp_path / "t.jsonl"
    original = played("a" * 100, "b")
    text = "".join(line + "\n" for line in original.to_lines())
    path.write_text(text[:length], encoding="utf-8")
    load(path)
    original.save(path)
    assert load(path)[-1] == original


def test_a_last_line_that_lacks_only_its_end_is_read(tmp_path):
    path = tmp_path / "t.jsonl"
    original = played("a", "b")
    path.write_text("\n".join(original.to_lines()), encoding="utf-8")
    assert load(path) == [original]
    original.save(path)
    assert load(path) == [original, original]


@pytest.mark.parametrize(
    "line",
    [
        "hello",
        "",
        "{}",
        "[]",
        "null",
        '{"type": "poem"}',
        '{"type": "event"}',
        '{"type": "header", "env": 1}',
        '{"type": "outcome"}',
    ],
)
def test_a_foreign_line_is_named(tmp_path, line):
    path = tmp_path / "t.jsonl"
    played("a", "b").save(path)
    with path.open("a", encoding="utf-8") as file:
        file.write(line + "\n")
    with pytest.raises(TranscriptError, match=r"t\.jsonl, line 5"):
        load(path)


WRONG = [
    ("header", {"kwargs": [1]}),
    ("header", {"kwargs": None}),
    ("header", {"options": None}),
    ("header", {"env": 1}),
    ("header", {"seed": "0"}),
    ("header", {"seed": True}),
    ("header", {"players": "alice"}),
    ("header", {"players": [1, 2]}),
    ("header", {"roles": {"alice": 1}}),
    ("event", {"text": 3}),
    ("event", {"turn": 0.5}),
    ("event", {"truncated": 1}),
    ("event", {"extracted": ["x"]}),
    ("event", {"visible_to": None}),
    ("outcome", {"rewards": [1.0]}),
    ("outcome", {"rewards": {"alice": "1"}}),
    ("outcome", {"components": {"alice": 1.0}}),
    ("outcome", {"reason": None}),
]


@pytest.mark.parametrize(("kind", "change"), WRONG)
def test_a_record_with_a_wrong_value_is_named(tmp_path, kind, change):
    path = tmp_path / "t.jsonl"
    records = [json.loads(line) for line in played("a", "b").to_lines()]
    number, record = next((number, record) for number, record in enumerate(records, 1) if record["type"] == kind)
    record.update(change)
    path.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")
    with pytest.raises(TranscriptError, match=rf"line {number}: .*{next(iter(change))} must not be"):
        load(path)


@pytest.mark.parametrize("kind", ["event", "outcome"])
def test_nothing_comes_after_the_outcome(tmp_path, kind):
    path = tmp_path / "t.jsonl"
    lines = list(played("a", "b").to_lines())
    again = next(line for line in lines if f'"type": "{kind}"' in line)
    path.write_text("\n".join([*lines, again]) + "\n", encoding="utf-8")
    with pytest.raises(TranscriptError, match=rf"line 5: .*{kind} comes after the outcome"):
        load(path)


@pytest.mark.parametrize("end", ["", "\n"])
@pytest.mark.parametrize("nested", ["[" * 200_000, '{"type": "header", "kwargs": ' + '{"a": ' * 200_000])
def test_a_line_that_is_nested_too_deeply_is_named(tmp_path, nested, end):
    path = tmp_path / "t.jsonl"
    played("a", "b").save(path)
    with path.open("a", encoding="utf-8") as file:
        file.write(nested + end)
    with pytest.raises(TranscriptError, match=r"t\.jsonl, line 5"):
        load(path)


def test_an_event_before_any_header_is_named(tmp_path):
    path = tmp_path / "t.jsonl"
    lines = list(played("a", "b").to_lines())
    path.write_text("\n".join(lines[1:]) + "\n", encoding="utf-8")
    with pytest.raises(TranscriptError, match=r"line 1: .*before any header"):
        load(path)


def test_nothing_is_written_behind_a_foreign_file(tmp_path):
    path = tmp_path / "poem.txt"
    path.write_text("Roses are red", encoding="utf-8")
    with pytest.raises(TranscriptError, match="does not end like a transcript"):
        played("a", "b").save(path)
    assert path.read_text(encoding="utf-8") == "Roses are red"
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(TranscriptError, match="not a transcript"):
        load(path)


def test_an_empty_file_holds_nothing(tmp_path):
    (tmp_path / "t.jsonl").touch()
    assert load(tmp_path / "t.jsonl") == []


def test_files_are_utf8_whatever_the_machine(tmp_path):
    """Python itself warns when a file is opened in the encoding of the machine, for example cp1252."""
    program = (
        "import sys, agon_env; from agon_env.transcript import load\n"
        "env = agon_env.make('DeepMathDuel-v0'); env.reset(seed=0)\n"
        "while not env.done: env.step('\u00e9\u2028' + env.solution(env.current_role))\n"
        "env.transcript.save(sys.argv[1]); assert load(sys.argv[1]) == [env.transcript]\n"
    )
    command = [sys.executable, "-X", "warn_default_encoding", "-W", "error::EncodingWarning", "-W", "ignore::UserWarning"]
    done = subprocess.run(
        [*command, "-c", program, str(tmp_path / "t.jsonl")], capture_output=True, encoding="utf-8", check=False
    )
    assert done.returncode == 0, done.stderr


# --- replay and rescore -----------------------------------------------------------------------------


@pytest.mark.parametrize("from_file", [False, True])
def test_a_transcript_is_replayed(tmp_path, registered, from_file):
    env = agon_env.make("toys/Nim-v0", players=("x", "y"))
    texts = (Action("bad", truncated=True), "2", "1" + "\u2028", "3", "2")
    original = played(*texts, env=env, seed=3, options={"stones": 8, "roles": {"x": "second", "y": "first"}})
    assert original.outcome.winner == "x"
    if from_file:
        original.save(tmp_path / "t.jsonl")
        (original,) = load(tmp_path / "t.jsonl")
    again = replay(original)
    assert again.outcome == original.outcome
    assert again.transcript == original


def test_a_text_that_was_cut_is_replayed(registered, monkeypatch):
    monkeypatch.setattr(Nim, "max_chars", 1)
    original = played("1", "2 and more", env=agon_env.make("toys/Nim-v0"), options={"stones": 3})
    assert replay(original).outcome == original.outcome


def test_an_unfinished_transcript_is_replayed_to_where_it_ends(registered):
    env = replay(played("1", env=agon_env.make("toys/Nim-v0"), options={"stones": 9}))
    assert env.observe().messages[-1]["content"] == "8 stones are left."
    assert rescore(env.transcript) is None


@pytest.mark.parametrize("what", ["outcome", "event", "player"])
def test_a_transcript_that_lies_is_found(tmp_path, registered, what):
    original = played("2", "1", env=agon_env.make("toys/Nim-v0"), options={"stones": 3})
    lines = [json.loads(line) for line in original.to_lines()]
    if what == "outcome":
        lines[-1]["rewards"] = {"alice": 1.0, "bob": -1.0}
    elif what == "event":
        lines[1]["extracted"] = "3"
    else:
        lines[1]["player"] = "bob"
    (tmp_path / "t.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    (forged,) = load(tmp_path / "t.jsonl")
    with pytest.raises(TranscriptError, match="replay"):
        replay(forged)


def test_rescore_judges_by_todays_verifier(registered, monkeypatch):
    original = played("It is 6", "wrong", env=agon_env.make("toys/Duel-v0"), options={"index": 3})
    assert original.outcome.winner == "alice"
    monkeypatch.setattr("toys.LastWordVerifier.score", lambda self, completion, gold: transcript_verdict(completion))
    assert rescore(original).winner == "bob"
    with pytest.raises(TranscriptError, match="use rescore"):
        replay(original)


def transcript_verdict(completion):
    from agon_env.verifiers import Verdict

    return Verdict(float(completion == "wrong"), completion, "reversed")


def test_a_contest_made_by_hand_can_not_be_replayed():
    with pytest.raises(TranscriptError, match=r"agon_env\.make"):
        replay(played("a", "b"))


@pytest.mark.parametrize("play", [replay, rescore])
def test_a_transcript_can_not_have_a_module_imported(tmp_path, monkeypatch, play):
    (tmp_path / "evilmod.py").write_text("raise SystemExit('imported')\n", encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    original = played("a", "b", env=agon_env.make("ArithmeticDuel-v0"))
    forged = replace(original, header=replace(original.header, env="evilmod:ArithmeticDuel-v0"))
    with pytest.raises(TranscriptError, match="names a module"):
        play(forged)
    assert "evilmod" not in sys.modules


@pytest.mark.parametrize(
    "change",
    [
        {"env": "Nope-v0"},
        {"env": "bad id!"},
        {"kwargs": {"volume": 11}},
        {"kwargs": {"difficulty": 99}},
        {"seed": -1},
        {"options": {"idx": 1}},
        {"options": {"index": 10**30}},
        {"roles": {"alice": "drafter"}},
    ],
)
def test_a_contest_that_can_not_be_made_again_is_named(change):
    original = played("a", "b", env=agon_env.make("ArithmeticDuel-v0"))
    with pytest.raises(TranscriptError, match="can't be made again"):
        replay(replace(original, header=replace(original.header, **change)))


def test_copies_of_a_transcript_share_its_records(duel):
    duel.reset(seed=0)
    text = "".join(["one ", "long ", "draft"])
    duel.step(text)
    fork = duel.fork()
    assert fork.transcript.events == duel.transcript.events
    assert fork.transcript.events[0].text is text
    assert fork.transcript.header is duel.transcript.header
    fork.step("b")
    assert [len(env.transcript.events) for env in (fork, duel)] == [2, 1]


def test_saving_does_not_read_the_file_again(tmp_path, monkeypatch):
    path = tmp_path / "t.jsonl"
    monkeypatch.setattr(transcript, "_is_json", lambda line: pytest.fail("the file was read"))
    for _ in range(3):
        played("a", "b").save(path)


def test_events_read_like_a_list(duel):
    duel.reset(seed=0)
    events = duel.transcript.events
    assert len(events) == 0
    duel.step("a")
    duel.step("b")
    assert [event.text for event in events] == ["a", "b"]  # what is held grows with the contest
    assert events[-1].player == events[1:][0].player == "bob"
    assert events[-1] == events[1] == events.last_row()
    assert list(events[::-1]) == list(reversed(events))
    assert events == list(events) == duel.fork().transcript.events
    assert events != events[:1]
    assert events != "ab"
    assert repr(events) == repr(list(events))
    events.append(events[0])
    assert [event.role for event in reversed(events)] == ["drafter", "challenger", "drafter"]
    for outside in (3, -4):
        with pytest.raises(IndexError):
            events[outside]
