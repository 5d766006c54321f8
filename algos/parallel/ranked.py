"""What changes when several ranks learn side by side: each has the frozen base, every adapter and every optimiser.

Contests and rows are divided over the ranks; what was played is gathered, gradients are added up. As each rank divides its
share of a loss by a count over *all* rows, the sum is the gradient of one process, however unequal the shares are. Then
every rank takes the same optimiser step from the same numbers, so that the adapters stay equal without being sent.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from agents.agent import Agent
from agents.policy import LLMPolicy
from agents.shared_base import SharedBase
from agon_env.contest import Contest
from algos.learner import LocalLearner
from algos.losses import count_normalizer, merge_stats
from algos.parallel.division import divide_evenly, divide_rows, merge, numbered, pack, unpack
from algos.parallel.ranks import Ranks, portable
from algos.phases import phase
from algos.rollouts import Rollout, Rollouts, Start, rollout
from algos.types import Batch, Row, Stats, ValueRow
from algos.values import Critic

AnyRow = TypeVar("AnyRow", Row, ValueRow)


class RankedLearner(LocalLearner):
    """A `LocalLearner` that computes its share of the rows, and learns from all of them."""

    def __init__(self, base: SharedBase, *, ranks: Ranks, **options: Any) -> None:
        """Learn together with the other `ranks`; for the options see `LocalLearner`."""
        super().__init__(base, **options)
        self.ranks = ranks

    def forward_backward(self, policy: LLMPolicy, batch: Batch) -> Stats:
        """Add this rank's share of the gradient; the statistics are those of the whole batch.

        Raises:
            Exception: what the first rank that failed has raised, on every rank.
        """
        normalizer = batch.normalizer
        if normalizer is None:
            normalizer = count_normalizer(self.loss.loss_type, [len(row.completion_ids) for row in batch.rows])
        rows = tuple(own_share(self.ranks, batch.rows))
        compute = super().forward_backward
        pieces = together(
            self.ranks,
            lambda: compute(policy, replace(batch, rows=rows, normalizer=normalizer)),
            otherwise=self._optimizer(policy).drop_gradient,
        )
        counts = {name: sum(piece.pop(name) for piece in pieces) for name in ("rows", "rows_computed")}
        return merge_stats(pieces) | counts

    @phase("update")
    def optim_step(self, policy: LLMPolicy) -> Stats:
        """Add up the gradients of all ranks, and step."""
        self.ranks.sum_gradients(self._optimizer(policy).parameters.values())
        return super().optim_step(policy)

    def logprobs(self, policy: LLMPolicy | None, rows: Sequence[Row], *, temperature: float = 1.0) -> list[tuple[float, ...]]:
        """Score this rank's share of the rows, and gather what the others have scored."""
        score = super().logprobs
        shares = shares_of(self.ranks, rows)
        own = [rows[index] for index in shares[self.ranks.number]]
        return _gathered(self.ranks, shares, lambda: score(policy, own, temperature=temperature))


class RankedCritic(Critic):
    """A `Critic` that computes its share of the rows, and learns from all of them; its learner is a `RankedLearner`."""

    learner: RankedLearner

    def values(
        self, prompts: Sequence[Sequence[int]], completions: Sequence[Sequence[int]], *, after: Sequence[bool]
    ) -> list[tuple[float, ...]]:
        """Value this rank's share of the turns, and gather what the others have valued."""
        value, ranks = super().values, self.learner.ranks
        costs = [len(prompt) + len(completion) for prompt, completion in zip(prompts, completions, strict=True)]
        shares = divide_rows(costs, prompts, parts=ranks.size)
        own = shares[ranks.number]
        return _gathered(
            ranks,
            shares,
            lambda: value([prompts[i] for i in own], [completions[i] for i in own], after=[after[i] for i in own]),
        )

    def forward_backward(self, rows: Sequence[ValueRow], *, normalizer: float | None = None) -> Stats:
        """Add this rank's share of the gradient; the statistics are those of all rows."""
        compute, ranks = super().forward_backward, self.learner.ranks
        states = float(max(1, sum(len(row.returns) for row in rows))) if normalizer is None else normalizer
        own = own_share(ranks, rows)
        pieces = together(ranks, lambda: compute(own, normalizer=states), otherwise=self._optimizer.drop_gradient)
        return {name: sum(piece[name] for piece in pieces) for name in pieces[0]}

    @phase("update")
    def optim_step(self) -> Stats:
        """Add up the gradients of all ranks, and step."""
        self.learner.ranks.sum_gradients(self.parameters())
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


T = TypeVar("T")


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


def shares_of(ranks: Ranks, rows: Sequence[AnyRow]) -> list[list[int]]:
    """Return the indices of the rows that each rank computes."""
    costs = [len(row.prompt_ids) + len(row.completion_ids) for row in rows]
    return divide_rows(costs, [row.prompt_ids for row in rows], parts=ranks.size)


def own_share(ranks: Ranks, rows: Sequence[AnyRow]) -> list[AnyRow]:
    """Return the rows that this rank computes."""
    return [rows[index] for index in shares_of(ranks, rows)[ranks.number]]


def _gathered(ranks: Ranks, shares: Sequence[Sequence[int]], compute: Callable[[], list[T]]) -> list[T]:
    """Return one result for each row, from the results that each rank has for its share."""
    of_row = {
        index: one
        for share, results in zip(shares, together(ranks, compute), strict=True)
        for index, one in zip(share, results, strict=True)
    }
    return [of_row[index] for index in sorted(of_row)]
