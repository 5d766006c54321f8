"""Generalised advantage estimation (Schulman et al. 2016, arXiv 1506.02438) over the tokens that a player said.

What a player did in one contest is a *line*: the tokens of its first turn, then those of its second, … A state is all that
stands before a token. What others say in between belongs to the transition from the last token of a turn to the first
state of the next one, so that the next turn's first value is what the turn before it is continued with:

    δ_t = r_t + γ·V(s_{t+1}) − V(s_t)        A_t = δ_t + γ·λ·A_{t+1}        G_t = A_t + V(s_t)

- The reward of the contest is paid at the last token of the player's last turn, and the price of a turn's length at the
  last token of that turn.
- Behind the last token stands 0. That holds too for a text that was cut at `max_tokens`: the contest has paid it as it is.
- A contest that `max_turns` cut short might have gone on. There the value of the state after the last token stands behind it.
  That such values mean something, the critic learns them after the last token of every turn that has a next one.

Dimension suffix: `T` tokens of a line.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from algos.length_penalty import COMPONENT
from algos.types import Turn


@dataclass(frozen=True)
class Judgement:
    """What a turn was worth, token by token."""

    advantages: NDArray[np.float64]
    """One per token."""
    returns: NDArray[np.float64]
    """What the critic should have said before each token, and after the last one where the player has a next turn."""


def gae(rewards_T: ArrayLike, values_T: ArrayLike, *, gamma: float, lam: float, bootstrap: float = 0.0) -> NDArray[np.float64]:
    """Return the advantages of the tokens of one line, shape (T,).

    Args:
        rewards_T: what was paid after each token.
        values_T: what the critic expected before each token.
        gamma: γ, what a reward is worth one token earlier.
        lam: λ. 1: the whole return less the value; 0: one step, then the critic's word.
        bootstrap: the value behind the last token: 0 where the contest is over.
    """
    rewards, values = np.asarray(rewards_T, dtype=np.float64), np.asarray(values_T, dtype=np.float64)
    deltas = rewards + gamma * np.append(values[1:], bootstrap) - values
    advantages, after = np.empty_like(deltas), 0.0
    for place in range(len(deltas) - 1, -1, -1):
        advantages[place] = after = deltas[place] + gamma * lam * after
    return advantages


def judge_turns(turns: Sequence[Turn], *, gamma: float, lam: float) -> list[Judgement | None]:
    """Judge every token of some turns.

    A turn that several contests passed through is on several lines, of which the mean counts. The reward of a line is that
    of its last turn.

    Args:
        turns: all turns of those players that are to be judged, in the order of play, with their `values` and `contests`.
        gamma: see `gae`.
        lam: see `gae`.

    Returns:
        For each turn what it was worth; None where no reward is known, or nothing was said.
    """
    lines: defaultdict[tuple[int, str], list[int]] = defaultdict(list)
    for index, turn in enumerate(turns):
        for contest in turn.contests:
            if _length(turn):
                lines[contest, turn.player].append(index)
    found: list[list[Judgement]] = [[] for _ in turns]
    for (contest, _), line in lines.items():
        own = [turns[index] for index in line]
        if own[-1].reward is None:
            continue
        judged = _judge_line(own, own[-1].reward, cut_short=contest in own[-1].unfinished, gamma=gamma, lam=lam)
        for index, judgement in zip(line, judged, strict=True):
            found[index].append(judgement)
    return [_mean(each) if each else None for each in found]


def _judge_line(line: Sequence[Turn], reward: float, *, cut_short: bool, gamma: float, lam: float) -> list[Judgement]:
    lengths = [_length(turn) for turn in line]
    prices = [turn.components.get(COMPONENT) or 0.0 for turn in line]
    paid = [*prices[:-1], reward]  # the last price is a part of the reward
    rewards_T = np.concatenate([np.append(np.zeros(length - 1), pay) for length, pay in zip(lengths, paid, strict=True)])
    values_T = np.concatenate([turn.values[:length] for turn, length in zip(line, lengths, strict=True)])
    advantages_T = gae(rewards_T, values_T, gamma=gamma, lam=lam, bootstrap=line[-1].values[-1] if cut_short else 0.0)
    returns_T = advantages_T + values_T
    judged, first = [], 0
    for length in lengths:
        after = first + length
        # Up to the next turn's first return, which is what the state after the last token is worth; a last turn has none.
        judged.append(Judgement(advantages_T[first:after], returns_T[first : after + 1]))
        first = after
    return judged


def _length(turn: Turn) -> int:
    return len(turn.completion.token_ids) if turn.completion is not None else 0


def _mean(judged: Sequence[Judgement]) -> Judgement:
    """Return the mean over the lines of a turn; the value after the last token is that of those lines that go on."""
    length = len(judged[0].advantages)
    after = [each.returns[length] for each in judged if len(each.returns) > length]
    returns = np.mean([each.returns[:length] for each in judged], axis=0)
    return Judgement(
        np.mean([each.advantages for each in judged], axis=0), np.append(returns, np.mean(after)) if after else returns
    )
