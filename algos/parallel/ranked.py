"""What changes when several ranks learn side by side: each has the frozen base, every adapter and every optimiser.

Contests and rows are divided over the ranks; what was played is gathered, gradients are added up. As each rank divides its
share of a loss by a count over *all* rows, the sum is the gradient of one process, however unequal the shares are. Then
every rank takes the same optimiser step from the same numbers, so that the adapters stay equal without being sent.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from agents.agent import Agent
from agents.policy import LLMPolicy
from agents.shared_base import SharedBase
from agon_env.contest import Contest
from algos.learner import LocalLearner
from algos.learning.batching import tokens_of
from algos.learning.values import Critic
from algos.losses import merge_stats
from algos.parallel.division import divide_evenly, divide_pieces, merge, numbered, pack, unpack
from algos.parallel.ranks import Ranks, portable
from algos.phases import phase
from algos.rollouts import Rollout, Rollouts, Start, rollout
from algos.types import Batch, Row, Stats, ValueRow

T = TypeVar("T")


class RankedLearner(LocalLearner):
    """A `LocalLearner` that computes its share of the micro-batches, and learns from all of them.

    They are those that one process makes, whole, so that every rank comes to the same weights as one process, to the last
    bit. Where there are fewer than ranks, the others wait: to cut them finer for each number of ranks would take more time in
    all (small products are slow), and change the rounding.
    """

    def __init__(self, base: SharedBase, *, ranks: Ranks, **options: Any) -> None:
        """Learn together with the other `ranks`; for the options see `LocalLearner`."""
        super().__init__(base, **options)
        self.ranks = ranks
        self._most = self.budget.tokens  # of all ranks, whatever one of them has no memory for later on
        self._told_of_idle = False

    def forward_backward(self, policy: LLMPolicy, batch: Batch) -> Stats:
        """Add this rank's share of the gradient; the statistics are those of the whole batch.

        Raises:
            Exception: what the first rank that failed has raised, on every rank.
        """
        compute = super().forward_backward
        pieces = together(self.ranks, lambda: compute(policy, batch), otherwise=self._optimizer(policy).drop_gradient)
        counts = [{name: piece.pop(name) for name in ("rows", "rows_computed")} for piece in pieces]
        self._tell_of_idle(sum(piece["tokens"] == 0 for piece in pieces), policy)
        return merge_stats(pieces) | counts[0]

    @phase("update")
    def optim_step(self, policy: LLMPolicy) -> Stats:
        """Add up the gradients of all ranks, and step."""
        self._optimizer(policy).add_up(self.ranks.add_up)
        return super().optim_step(policy)

    def logprobs(self, policy: LLMPolicy | None, rows: Sequence[Row], *, temperature: float = 1.0) -> list[tuple[float, ...]]:
        """Score this rank's share of the rows, and gather what the others have scored."""
        score = super().logprobs
        return merged(together(self.ranks, lambda: score(policy, rows, temperature=temperature)))

    def _cut(self, rows: Sequence[Row], tokens: int) -> list[list[int]]:
        cut = super()._cut
        pieces = cut(rows, self._most)
        costs = [tokens_of([rows[index] for index in piece]) for piece in pieces]
        own = [pieces[index] for index in divide_pieces(costs, parts=self.ranks.size)[self.ranks.number]]
        if tokens >= self._most:
            return own
        return [[piece[place] for place in part] for piece in own for part in cut([rows[index] for index in piece], tokens)]

    def _tell_of_idle(self, idle: int, policy: LLMPolicy) -> None:
        """Warn, once in a run, when ranks had nothing to do while others learned."""
        if 0 < idle < self.ranks.size and self.ranks.first and not self._told_of_idle:
            self._told_of_idle = True
            warnings.warn(
                f"there were micro-batches for only {self.ranks.size - idle} of {self.ranks.size} ranks in an update of "
                f"{policy.name}, and the others waited. Take fewer ranks, larger steps, or an optim.token_budget below "
                f"{self._most}",
                stacklevel=2,
            )


class RankedCritic(Critic):
    """A `Critic` that computes its share of the micro-batches, and learns from all; its learner is a `RankedLearner`."""

    learner: RankedLearner

    def values(
        self, prompts: Sequence[Sequence[int]], completions: Sequence[Sequence[int]], *, after: Sequence[bool]
    ) -> list[tuple[float, ...]]:
        """Value this rank's share of the turns, and gather what the others have valued."""
        value = super().values
        return merged(together(self.learner.ranks, lambda: value(prompts, completions, after=after)))

    def forward_backward(self, rows: Sequence[ValueRow], *, normalizer: float | None = None) -> Stats:
        """Add this rank's share of the gradient; the statistics are those of all rows."""
        compute = super().forward_backward
        drop = self._optimizer.drop_gradient
        pieces = together(self.learner.ranks, lambda: compute(rows, normalizer=normalizer), otherwise=drop)
        return {name: sum(piece[name] for piece in pieces) for name in pieces[0]}

    @phase("update")
    def optim_step(self) -> Stats:
        """Add up the gradients of all ranks, and step."""
        self._optimizer.add_up(self.learner.ranks.add_up)
        return super().optim_step()


def ranked_rollout(ranks: Ranks) -> Rollouts:
    """Return what plays as `algos.rollouts.rollout` does, each rank its share of the starts."""

    def play(make_contest: Callable[[], Contest], players: Mapping[str, Agent], starts: Sequence[Start], **how: Any) -> Rollout:
        own = divide_evenly(numbered(starts), parts=ranks.size)[ranks.number]
        template = make_contest()
        parts = together(ranks, lambda: pack(rollout(make_contest, players, own, **how), template))
        return merge([unpack(part, template) for part in parts])

    return play


def rollout_of_first(ranks: Ranks, play: Rollouts) -> Rollouts:
    """Return what has the first rank play, which has workers for it, and tells the others what came of it."""

    def play_once(
        make_contest: Callable[[], Contest], players: Mapping[str, Agent], starts: Sequence[Start], **how: Any
    ) -> Rollout:
        template = make_contest()
        parts = together(ranks, lambda: pack(play(make_contest, players, starts, **how), template) if ranks.first else b"")
        return unpack(parts[0], template)

    return play_once


def together(ranks: Ranks, compute: Callable[[], T], *, otherwise: Callable[[], None] = lambda: None) -> list[T]:
    """Compute something on each rank and return all results; an error on one rank is raised on all.

    Without that, the others would wait for the one that failed.

    Args:
        ranks: who computes.
        compute: what.
        otherwise: called on each rank before the error is raised.
    """
    try:
        result: T | Exception = compute()
    except Exception as error:  # sent to the others, and raised there as here
        result = error
    found = ranks.gather(portable(result) if isinstance(result, Exception) else result)
    errors = [each for each in found if isinstance(each, Exception)]
    if errors:
        otherwise()
        raise result if isinstance(result, Exception) else errors[0]
    return found  # type: ignore[return-value]


def merged(parts: Sequence[list[tuple[float, ...]]]) -> list[tuple[float, ...]]:
    """Return the numbers of every row, from those that each rank has of its share; it has none of the others."""
    return [next((numbers for numbers in of_row if numbers), ()) for of_row in zip(*parts, strict=True)]
