"""Contests as a `datasets.Dataset`, one row for each move: to fine-tune on, to filter, to look at."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from agon_env.contest import Contest
from agon_env.errors import DependencyNotInstalled
from agon_env.transcript import Transcript, watch
from agon_env.types import Message

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
        TranscriptError: a contest can't be played again; give `prompts=False`.
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
    read = [observation.messages for observation in watch(transcript)] if prompts else []
    for place, event in enumerate(transcript.events):
        row = {
            "contest": index,
            "env": header.env,
            "seed": header.seed,
            "turn": event.turn,
            "player": event.player,
            "role": event.role,
            "completion": _messages([{"role": "assistant", "content": event.text}]),
            "truncated": event.truncated,
            "extracted": _storable(event.extracted),
            "invalid": _storable(event.invalid),
            "visible_to": list(event.visible_to),
            "reward": None if outcome is None else outcome.rewards[event.player],
            "score": None if outcome is None else outcome.scores[event.player],
            "reason": None if outcome is None else _storable(outcome.reason),
        }
        yield row | ({"prompt": _messages(read[place])} if prompts else {})


def _messages(messages: Sequence[Message]) -> list[dict[str, str | None]]:
    return [{"role": message["role"], "content": _storable(message["content"])} for message in messages]


def _storable(text: str | None) -> str | None:
    """Return the text with U+FFFD in the place of lone surrogates, which Arrow can't hold."""
    return None if text is None else text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
