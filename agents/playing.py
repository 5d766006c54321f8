"""`play`: contests between agents of any kind, in lockstep, in which whoever fails harms nobody else."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from agents.ensemble import Player
from agents.faults import Guarded, fault_of, guarded
from agon_env.contest import Contest
from agon_env.types import Action, Observation
from agon_env.vector import VectorContest

OnFault: TypeAlias = Literal["forfeit", "abort", "retry"]
"""What a failing agent costs: its contest is lost; has no result; is played again from its seed, and then has none."""


@dataclass
class Played:
    """One contest that `play` brought to its end."""

    contest: Contest
    """It is over; `contest.outcome` says how."""
    faults: list[str] = field(default_factory=list)
    """What went wrong at each attempt that an agent's failure ended, for example "bob raised ValueError: …"."""

    @property
    def failed(self) -> bool:
        """Whether the last attempt ended by a failure too, so that the outcome is that of a fault."""
        return fault_of(self.contest) is not None


def play(
    contests: Sequence[Contest],
    players: Sequence[Mapping[str, Player]],
    *,
    on_fault: OnFault = "forfeit",
    timeout: float | None = None,
    retries: int = 1,
    on_end: Callable[[int, Played], None] | None = None,
) -> list[Played]:
    """Play contests to their ends. All observations that wait for one agent are asked of it at once.

    Args:
        contests: each has been reset; they may be of different games.
        players: for each contest, player → agent. The same agent may sit in many of them.
        on_fault: what becomes of a contest in which an agent raises, hangs, or does not say one text for each
            observation: "forfeit", that player loses; "abort", every reward is None; "retry", it is played again from its
            seed, at most `retries` times, and aborted if that does not help.
        timeout: seconds for one call of an agent; None waits for ever.
        retries: how often a contest is begun again.
        on_end: told the number of a contest and what came of it as soon as it is over.

    Returns:
        What came of each contest, in their order.

    Raises:
        TypeError: `players` is one mapping instead of one for each contest.
        ValueError: they are too many or too few, a seat is empty, or `on_fault` is none of the three.
    """
    if isinstance(players, Mapping):
        raise TypeError("players is a list, with a mapping player → agent for each contest: [players] * len(contests)")
    if len(players) != len(contests):
        raise ValueError(f"there are players for {len(players)} contests, but {len(contests)} contests")
    if on_fault not in ("forfeit", "abort", "retry"):
        raise ValueError(f'on_fault must be "forfeit", "abort" or "retry", not {on_fault!r}')
    for contest, seats in zip(contests, players, strict=True):
        require_seated(contest, seats)
    guards: dict[int, Guarded] = {
        id(agent): guarded(agent, on_fault="forfeit" if on_fault == "forfeit" else "abort", timeout=timeout)
        for seats in players
        for agent in seats.values()
    }
    together = VectorContest(contests)
    for guard in guards.values():
        guard.watch(together)
    done = [Played(contest) for contest in contests]
    left = retries if on_fault == "retry" else 0
    running = set(range(len(contests)))
    while running:
        waiting = {number: observation for number, observation in together.pending().items() if number in running}
        together.step(_actions(waiting, lambda number, player: guards[id(players[number][player])]))
        for number in sorted(number for number in running if contests[number].done):
            if (fault := fault_of(contests[number])) is not None:
                done[number].faults.append(fault)
                if len(done[number].faults) <= left:
                    _begin_again(contests[number])
                    continue
            running.discard(number)
            if on_end is not None:
                on_end(number, done[number])
    return done


def require_seated(contest: Contest, players: Mapping[str, Player]) -> None:
    """Refuse to play where a seat is empty.

    Raises:
        ValueError: nobody plays for a player of the contest; the message names it.
    """
    if empty := [player for player in contest.players if player not in players]:
        raise ValueError(
            f"nobody plays for {', '.join(empty)}: the contest is between {', '.join(contest.players)}, and the agents "
            f"given are for {', '.join(players) or 'nobody'}"
        )


def _actions(waiting: Mapping[int, Observation], seated: Callable[[int, str], Guarded]) -> dict[int, Action]:
    """Ask every agent once for all that waits for it."""
    asked: dict[Guarded, list[int]] = {}
    for number, observation in waiting.items():
        asked.setdefault(seated(number, observation.player), []).append(number)
    actions: dict[int, Action] = {}
    for guard, numbers in asked.items():
        actions |= zip(numbers, guard.act([waiting[number] for number in numbers]), strict=True)
    return actions


def _begin_again(contest: Contest) -> None:
    header = contest.transcript.header
    contest.reset(seed=header.seed, options={**header.options, "roles": dict(header.roles)})
