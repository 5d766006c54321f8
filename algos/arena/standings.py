"""How the players of a tournament stand: ratings with intervals, the cross-table, draws, failures. Pure functions."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from statistics import fmean
from typing import Any

from agon_env.printable import printable
from algos.arena.entrants import Entrant
from algos.arena.ratings import Comparison, bradley_terry, comparisons
from algos.arena.results import Result
from algos.statistics import Estimate
from algos.training.markdown import as_name


@dataclass
class Standing:
    """How one player did."""

    label: str
    spec: str
    policy: str | None
    step: int | None
    rating: Estimate
    contests: int = 0
    wins: int = 0
    """Comparisons with another player that were won; a contest of two has one for each, one of three has two."""
    draws: int = 0
    losses: int = 0
    reward: float | None = None
    """Mean reward, over the contests whose rewards are known."""
    forfeits: int = 0
    """Contests lost by an illegal move."""
    failures: int = 0
    """Contests lost because the agent raised, hung or said no text."""


@dataclass(frozen=True)
class Standings:
    """How everybody stands."""

    env: str
    players: tuple[Standing, ...]
    """The best first."""
    contests: int
    decided: int
    """Contests that somebody won."""
    drawn: int
    """Contests in which all were paid alike."""
    forfeited: int
    failed: int
    unknown: int
    """Contests of which a reward could not be computed; they are not rated."""
    cross: Mapping[str, Mapping[str, tuple[float, int]]] = field(default_factory=dict)
    """Label → rival → share of the points (a draw is half of one), number of comparisons."""

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON values."""
        return asdict(self)

    def rows(self) -> list[dict[str, str]]:
        """Return the table of the players, as texts."""
        return [
            {
                "": str(place),
                "player": printable(one.label),
                "rating": f"{one.rating.value:.0f}",
                "95 %": f"{one.rating.low:.0f}–{one.rating.high:.0f}",
                "won/drawn/lost": f"{one.wins}/{one.draws}/{one.losses}",
                "reward": "" if one.reward is None else f"{one.reward:.3f}",
                "forfeits": str(one.forfeits),
                "failures": str(one.failures),
            }
            for place, one in enumerate(self.players, start=1)
        ]

    def cross_rows(self) -> list[dict[str, str]]:
        """Return the cross-table, as texts: share of the points of who stands on the left against who stands above."""
        labels = [one.label for one in self.players]
        return [
            {"": f"{place}. {printable(label)}"}
            | {str(number): _share(self.cross.get(label, {}).get(rival)) for number, rival in enumerate(labels, start=1)}
            for place, label in enumerate(labels, start=1)
        ]

    def summary(self) -> str:
        """Return one sentence on the contests."""
        return (
            f"{self.contests} contests of {as_name(self.env)}: {self.decided} decided, {self.drawn} drawn, "
            f"{self.unknown} without a result; {self.forfeited} ended by an illegal move and {self.failed} by an agent that "
            "failed."
        )

    def markdown(self) -> str:
        """Return everything as a Markdown page."""
        return "\n".join([self.summary(), "", *_table(self.rows()), "", *_table(self.cross_rows())]) + "\n"


def stand(entrants: Sequence[Entrant], results: Sequence[Result], *, env: str) -> Standings:
    """Count results and rate the players.

    Args:
        entrants: the players.
        results: of contests between them.
        env: the contest's id.
    """
    compared = list(_compared(results))
    ratings = bradley_terry([entrant.label for entrant in entrants], compared)
    players = {e.label: Standing(e.label, e.spec, e.policy, e.step, ratings[e.label]) for e in entrants}
    paid: defaultdict[str, list[float]] = defaultdict(list)
    for result in results:
        for label in result.fixture.seats:
            players[label].contests += 1
        for label, reward in (result.known or {}).items():
            paid[label].append(reward)
        if result.forfeited is not None:
            players[result.forfeited].failures += result.failed
            players[result.forfeited].forfeits += not result.failed
    points: defaultdict[str, defaultdict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for one in compared:
        for label, rival, result_ in ((one.player, one.rival, one.result), (one.rival, one.player, 1 - one.result)):
            points[label][rival].append(result_)
            players[label].wins += result_ == 1
            players[label].draws += result_ == 0.5
            players[label].losses += result_ == 0
    for label, rewards in paid.items():
        players[label].reward = fmean(rewards)
    known = [result.known for result in results if result.known is not None]
    drawn = sum(len(rewards) > 1 and len(set(rewards.values())) == 1 for rewards in known)
    return Standings(
        env=env,
        players=tuple(sorted(players.values(), key=lambda one: -one.rating.value)),
        contests=len(results),
        decided=len(known) - drawn,
        drawn=drawn,
        forfeited=sum(result.forfeited is not None and not result.failed for result in results),
        failed=sum(result.failed for result in results),
        unknown=len(results) - len(known),
        cross={label: {rival: (fmean(own), len(own)) for rival, own in rivals.items()} for label, rivals in points.items()},
    )


def _compared(results: Sequence[Result]) -> Iterator[Comparison]:
    """Yield who did better than whom. Those who play alone are compared with each other on the same problem."""
    alone: defaultdict[int, dict[str, float]] = defaultdict(dict)
    for result in results:
        if result.known is None:
            continue
        if len(result.known) == 1:
            alone[result.fixture.game] |= result.known
        else:
            yield from comparisons(result.known, block=result.fixture.game)
    for game, rewards in alone.items():
        yield from comparisons(rewards, block=game) if len(rewards) > 1 else ()


def _share(found: tuple[float, int] | None) -> str:
    return "" if found is None else f"{100 * found[0]:.0f} %"


def _table(rows: Sequence[Mapping[str, str]]) -> list[str]:
    if not rows:
        return []
    cells = [[as_name(text) for text in row] for row in ([*rows[0]], *(row.values() for row in rows))]
    head, *body = (f"| {' | '.join(row)} |" for row in cells)
    return [head, "|" + "---|" * len(rows[0]), *body]
