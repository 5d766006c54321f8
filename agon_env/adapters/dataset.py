"""Contests as a `datasets.Dataset`, one row for each move: to fine-tune on, to filter, to look at."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from agon_env.adapters.wire import storable, storable_messages
from agon_env.contest import Contest
from agon_env.errors import DependencyNotInstalled, TranscriptError
from agon_env.transcript import Transcript, watch

if TYPE_CHECKING:
    from datasets import Dataset


def to_dataset(contests: Iterable[Transcript | Contest], *, prompts: bool = True) -> Dataset:
    """Return the moves of `contests`, in order, also those that were refused.

    Columns: "contest" (number in `contests`), "env", "seed", "turn", "player", "role", "prompt" and "completion" (chat
    messages, as TRL's trainers read them), "truncated", "extracted", "invalid", "visible_to", and how the contest ended:
    "reward" and "score" of the player who moved (None where they could not be computed, or the contest went on), "reason".

    Args:
        contests: contests or their transcripts, for example what `agon_env.transcript.load` returns.
        prompts: also give what the player read. A transcript does not hold it: the contest is played again.

    Raises:
        DependencyNotInstalled: without the package `datasets`.
        TranscriptError: a contest can't be played again; give `prompts=False`. Or a seed is 2⁶³ or more, which no column holds.
    """
    try:
        from datasets import Dataset, Features, Value
    except ImportError as error:
        raise DependencyNotInstalled("this needs the package datasets; run: pip install 'agon-env[hub]'") from error
    text, number, messages = Value("string"), Value("int64"), [{"role": Value("string"), "content": Value("string")}]
    features = {
        "contest": number, "env": text, "seed": number, "turn": number, "player": text, "role": text,
        "prompt": messages, "completion": messages, "truncated": Value("bool"), "extracted": text, "invalid": text,
        "visible_to": [text], "reward": Value("float64"), "score": Value("float64"), "reason": text,
    }  # fmt: skip
    if not prompts:
        del features["prompt"]
    rows = [row for index, contest in enumerate(contests) for row in _rows(index, contest, prompts=prompts)]
    return Dataset.from_dict({name: [row[name] for row in rows] for name in features}, features=Features(features))


def _rows(index: int, contest: Transcript | Contest, *, prompts: bool) -> Iterator[dict[str, Any]]:
    transcript = contest if isinstance(contest, Transcript) else contest.transcript
    header, outcome = transcript.header, transcript.outcome
    if header.seed >= 2**63:
        raise TranscriptError(
            f"contest {index} has the seed {header.seed}, but a data set holds seeds below 2**63; leave it out"
        )
    read = [observation.messages for observation in watch(transcript)] if prompts else []
    for place, event in enumerate(transcript.events):
        row = {
            "contest": index,
            "env": header.env,
            "seed": header.seed,
            "turn": event.turn,
            "player": event.player,
            "role": event.role,
            "completion": storable_messages([{"role": "assistant", "content": event.text}]),
            "truncated": event.truncated,
            "extracted": event.extracted and storable(event.extracted),
            "invalid": event.invalid and storable(event.invalid),
            "visible_to": list(event.visible_to),
            "reward": None if outcome is None else outcome.rewards[event.player],
            "score": None if outcome is None else outcome.scores[event.player],
            "reason": None if outcome is None else storable(outcome.reason),
        }
        yield row | ({"prompt": storable_messages(read[place])} if prompts else {})
