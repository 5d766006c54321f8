"""The texts of a run that won, as chat data to fine-tune on: JSON lines with `messages`, as `datasets` and TRL read them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from agon_env.adapters.wire import storable_messages
from agon_env.transcript import Transcript, watch
from agon_env.types import Outcome
from algos.training.contest_log import CONTESTS, read_contests
from algos.training.run_folder import write_text


def write_chat_data(run: Path, file: Path) -> Path:
    """Write one line for each text that won in a run's contests, equal ones once, and return `file`.

    Raises:
        FileNotFoundError: the run has kept no contests.
        TranscriptError: a contest can't be played again.
    """
    contests = run / CONTESTS
    if not contests.is_file():
        raise FileNotFoundError(
            f"{run} has kept no contests, so there is nothing to fine-tune on: train with --keep-transcripts 1"
        )
    lines: dict[str, str] = {}
    for record, transcript in read_contests(contests):
        for row in won_texts(record, transcript):
            lines.setdefault(json.dumps(row["messages"]), json.dumps(row))
    write_text(file, "".join(line + "\n" for line in lines.values()))
    return file


def won_texts(record: dict[str, Any], transcript: Transcript) -> Iterator[dict[str, Any]]:
    """Yield the moves of the contest's winner with what it had read. Refused moves and texts that were cut off are left out.

    Args:
        record: the contest's line in `contests.jsonl`.
        transcript: the contest.
    """
    winner = winner_of(transcript.outcome) if transcript.outcome is not None else None
    if winner is None or transcript.outcome is None:
        return
    for event, read in zip(transcript.events, watch(transcript), strict=True):
        if event.player == winner and event.invalid is None and not event.truncated:
            yield {
                "messages": storable_messages([*read.messages, {"role": "assistant", "content": event.text}]),
                "policy": record["policies"].get(winner),
                "role": event.role,
                "step": record["step"],
                "reward": transcript.outcome.rewards[winner],
            }


def winner_of(outcome: Outcome) -> str | None:
    """Return who won: who was paid more than every rival; alone, who was paid anything above nothing."""
    winner = outcome.winner
    if winner is None or outcome.reason.startswith(("forfeit", "aborted")):
        return None
    return winner if len(outcome.rewards) > 1 or (outcome.rewards[winner] or 0) > 0 else None
