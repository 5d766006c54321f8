"""`agon play`."""

from __future__ import annotations

from typing import Annotated, TypeAlias

import tyro
from rich.console import Console
from rich.text import Text

from agon_env.types import Observation
from algos.commands import DONE
from algos.commands.flags import Options, PathIfAny, Seed

Duel: TypeAlias = Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="[ENV]")]
Players: TypeAlias = Annotated[tuple[str, ...], tyro.conf.arg(metavar="NAME [NAME …]")]


def command(
    env: Duel = "ArithmeticDuel-v0",
    players: Players = ("embedded",),
    seed: Seed = 0,
    env_options: Options = (),
    save: PathIfAny = None,
) -> int:
    """Watch players in a contest, or play in it.

    agon play ArithmeticDuel-v0 --players human run:runs/NAME

    Args:
        env: id of the contest; "module:Name-v0" imports the module first.
        players: who plays, in the order of the seats; one name is everybody's. Whatever `agon agents` lists, human among them;
            run:FOLDER, the policies that a run has trained, each in its seat; run:FOLDER/NAME, one of them.
        seed: the same seed is the same contest, in which players that leave something to chance do the same again.
        env_options: options of the contest, each name=value.
        save: append the transcript to this file.
    """
    import agon_env
    from agents import Human
    from agents.faults import guarded
    from algos.config import read_options
    from algos.errors import ConfigError
    from algos.playing.players import seat_players
    from algos.training.contest_view import ContestView

    try:
        contest = agon_env.make(env, **read_options(env_options))
    except (TypeError, ValueError) as error:  # an option that the contest does not take
        raise ConfigError(str(error)) from error
    seated = seat_players(players, contest)
    for seat, agent in enumerate(seated.values()):
        if callable(begin := getattr(agent, "seed", None)):
            begin(seed * len(seated) + seat)
    view = ContestView(Console(highlight=False), contest)
    first, info = contest.reset(seed=seed)
    view.opening(info)
    asked: Observation | None = first
    while asked is not None:
        agent = seated[asked.player]
        view.reads(asked)
        if isinstance(agent, Human):
            agent.show_prompt = False  # it was just shown
            action = agent(asked)
        else:
            action = guarded(agent)(asked)
            view.says(asked, action)
        asked, *_, info = contest.step(action)
        if info["invalid"] is not None:
            view.refused(info["invalid"])
    view.ending()
    if save is not None:
        contest.transcript.save(save)
        view.console.print(Text(f"saved in {save}"), soft_wrap=True)
    return DONE
