"""Players by id, those of a trained run included, seated in a contest.

`run:FOLDER/NAME` is the policy of that name, as its run left it. `run:FOLDER` is the policy whose turn in the run's
order it is: the first one in the first seat, the second in the second; alone in a contest for one player, it is the
pair, of which one drafts and the other answers. Any other id is what `agents.make` makes of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import agents
from agents.agent import Agent
from agents.cascade import Cascade
from agents.scripted import Spectator
from agon_env.contest import Contest
from agon_env.errors import Error
from algos.training.trained import Trained, load_trained

RUN = "run:"


def seat_players(ids: Sequence[str], contest: Contest) -> dict[str, Agent]:
    """Return player → agent. The same id is loaded once, whoever it plays for.

    Args:
        ids: one for each player of the contest, in their order; or one for all of them.
        contest: what they play.

    Raises:
        Error: there are too many or too few ids, or one can't be made.
        FileNotFoundError: the folder of a run is none.
    """
    seats = contest.players
    if len(ids) == 1:
        ids = list(ids) * len(seats)
    if len(ids) != len(seats):
        raise Error(f"the contest has {len(seats)} players ({', '.join(seats)}): name as many, or one for all of them")
    runs = {folder: load_trained(folder) for folder in dict.fromkeys(run_of(id) for id in ids if id.startswith(RUN))}
    made = {id: agents.make(id) for id in dict.fromkeys(ids) if not id.startswith(RUN)}
    seated = {
        player: made[id] if id in made else _of_run(id, runs[run_of(id)], seat=seats.index(player), seats=len(seats))
        for player, id in zip(seats, ids, strict=True)
    }
    for agent in seated.values():
        if isinstance(agent, Spectator):
            agent.watch(contest)
    return seated


def run_of(id: str) -> Path:
    """Return the folder of the run that an id `run:…` names, with or without one of its policies."""
    path = Path(id.removeprefix(RUN))
    of_policy = not (path / "config.json").is_file() and (path.parent / "config.json").is_file()
    return path.parent if of_policy else path


def _of_run(id: str, trained: Trained, *, seat: int, seats: int) -> Agent:
    path, policies = Path(id.removeprefix(RUN)), list(trained.policies.values())
    if path != trained.run:
        return trained.policy(path.name)
    if seats > 1 or len(policies) < 2:
        return policies[seat % len(policies)]
    return Cascade(*policies[:2], reveal=trained.config.contest_options().get("reveal", "draft"))
