"""Golden transcripts: how each registered contest goes, word for word, so that no change goes unseen.

`UPDATE_GOLDEN=1 pytest tests/env/test_golden.py` writes them anew. After a release, a contest whose golden changes
gets the next version instead.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

import agon_env
from agon_env.checker import UNICODE, able_player, garbage_player, seated
from agon_env.contest import Contest
from agon_env.transcript import Transcript, load, replay
from agon_env.types import Action

GOLDEN = Path(__file__).parent / "golden"
IDS = sorted(agon_env.registry)

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")


def clumsy_player(env: Contest) -> str:
    return f"<think>Is it -7? {UNICODE}</think>I think that the answer is \\boxed{{-7}}.\n<|im_end|>\nanswer: -7"


SCRIPTS = {
    0: {"first": clumsy_player, "then": able_player},
    1: {"first": able_player, "then": clumsy_player},
    2: {"first": garbage_player, "then": lambda env: Action(able_player(env), truncated=True)},
}


def play_all(id: str) -> tuple[list[Transcript], str]:
    """Play the scripts; return the transcripts, and all that the players read and said."""
    transcripts, seen = [], []
    for seed, script in SCRIPTS.items():
        env = agon_env.make(id)
        first, *others = env.roles
        player = seated({first: script["first"]} | dict.fromkeys(others, script["then"]))
        roles = dict(zip(env.players, env.roles if seed % 2 == 0 else env.roles[::-1], strict=True))
        obs, _ = env.reset(seed=seed, options={"roles": roles})
        while not env.done:
            seen.append(f"=== seed {seed}, {obs.player} reads as {obs.role}\n{obs.text}")
            action = player(env)
            obs, *_ = env.step(action)
            said = env.transcript.events[-1].text
            seen.append(f"=== seed {seed}, and says\n{said}")
        seen.append(f"=== seed {seed}, outcome\n{json.dumps(env.outcome.scores)}")
        transcripts.append(env.transcript)
    return transcripts, "\n".join(seen) + "\n"


def readable(text: str) -> str:
    """Return `text` with all but printable ASCII and line feeds escaped, as the golden files hold it."""
    return "".join(c if c == "\n" or " " <= c <= "~" else f"\\u{ord(c):04x}" for c in text)


def without_versions(transcript: Transcript) -> list[dict]:
    return [{key: value for key, value in json.loads(line).items() if key != "versions"} for line in transcript.to_lines()]


@pytest.mark.parametrize("id", IDS)
def test_the_contest_goes_as_ever(id):
    name = id.replace("/", ".")
    transcripts, seen = play_all(id)
    if os.environ.get("UPDATE_GOLDEN"):
        (GOLDEN / f"{name}.jsonl").unlink(missing_ok=True)
        for transcript in transcripts:
            transcript.save(GOLDEN / f"{name}.jsonl")
        (GOLDEN / f"{name}.txt").write_text(readable(seen), encoding="utf-8", newline="\n")
    assert readable(seen) == (GOLDEN / f"{name}.txt").read_text(encoding="utf-8"), f"{id} has changed: raise its version"
    golden = load(GOLDEN / f"{name}.jsonl")
    assert list(map(without_versions, transcripts)) == list(map(without_versions, golden)), (
        f"{id} has changed: raise its version"
    )
    for transcript in golden:
        assert replay(transcript).outcome == transcript.outcome


def test_every_golden_belongs_to_a_contest():
    assert {path.stem for path in GOLDEN.iterdir()} == {id.replace("/", ".") for id in IDS}
