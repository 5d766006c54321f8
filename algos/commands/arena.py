"""`agon arena`."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import TYPE_CHECKING

from algos.commands import DONE, INTERRUPTED
from algos.commands.flags import Count, CountIfAny, EnvIfAny, Names, Options, PathIfAny, SecondsOrNone, Seed, Temperature

if TYPE_CHECKING:
    from algos.arena.standings import Standings
    from algos.training.console import Ticker


def command(
    env: EnvIfAny = None,
    players: Names = (),
    run: PathIfAny = None,
    against: Names = (),
    games: Count = 20,
    contests: CountIfAny = None,
    out: PathIfAny = None,
    seed: Seed = 0,
    env_options: Options = (),
    max_tokens: Count = 256,
    temperature: Temperature = 1.0,
    batch: Count = 128,
    timeout: SecondsOrNone = 600.0,
) -> int:
    """Hold a tournament of any players, or of a run's checkpoints.

    Every pair plays the same held-out problems in both seats. Interrupted, the same command goes on; with more games or
    players it adds to what is there. docs/arena.md has the details.

    Args:
        env: id of the contest. Default: that of the run, with its options.
        players: who takes part, each [LABEL=]ID: any id that `agon agents` lists, or run:FOLDER, all policies of a run.
        run: a run whose checkpoints take part, and its base; their ratings over the steps become a figure.
        against: also these, which stand still: base, oracle, random, copycat, or any other id.
        games: problems that every pair plays.
        contests: play only the first so many contests of the schedule.
        out: folder of the tournament. Default: arena/ENV, or `arena` in the run.
        seed: of the problems, and of what players draw.
        env_options: options of the contest, each name=value.
        max_tokens: most tokens of one text of a language model that comes from no run.
        temperature: of the same.
        batch: contests in lockstep.
        timeout: seconds for one call of a player, for all that waits for it; then it loses these contests. 0: no limit.
    """
    from rich.text import Text

    import agon_env
    from agents.sampling import SamplingParams
    from agon_env.printable import printable
    from algos.arena.entrants import named, of_checkpoints
    from algos.arena.tournament import run_arena
    from algos.config import load_config, read_options
    from algos.errors import ConfigError
    from algos.training.console import RunConsole

    options = read_options(env_options)
    if run is not None:
        config = load_config(run)
        if env is None:
            env, options = config.env, {**config.contest_options(), **options}
    if env is None:
        raise ConfigError("name the contest, for example: agon arena ArithmeticDuel-v0 --players oracle random; or a --run")
    try:
        seats = len(agon_env.make(env, **options).roles)
        params = SamplingParams(max_tokens=max_tokens, temperature=temperature)
    except (TypeError, ValueError) as error:
        raise ConfigError(str(error)) from error
    states = of_checkpoints(run, seats=seats) if run is not None else []
    wanted = [spec for spec in (*players, *against) if run is None or spec != "base"]  # the run's base is there already
    entrants = [*states, *named(wanted, seats=seats, params=params)]
    folder = out or (run / "arena" if run is not None else Path("arena") / env.replace("/", "_"))
    console = RunConsole()
    labels = printable(", ".join(entrant.label for entrant in entrants))
    console.console.print(Text(f"{len(entrants)} players: {labels}"))
    try:
        with contextlib.ExitStack() as stack:
            tick: list[Ticker] = []

            def show(done: int, total: int, leader: str | None) -> None:
                if not tick:
                    tick.append(stack.enter_context(console.progress("contest", total, done=done - 1)))
                if console.live or done == total or done % max(1, total // 20) == 0:
                    tick[0](done, f"{leader} leads" if leader else "")

            standings = run_arena(
                env,
                entrants,
                out=folder,
                env_options=options,
                games=games,
                contests=contests,
                seed=seed,
                batch=batch,
                timeout=timeout or None,
                on_contest=show,
            )
    except KeyboardInterrupt:
        console.say(f"\nStopped. The same command goes on; what is finished is in {folder}.")
        return INTERRUPTED
    _print(standings, folder)
    return DONE


def _print(standings: Standings, folder: Path) -> None:
    """Print the tables, and draw the figure where matplotlib is installed."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from agents.errors import DependencyNotInstalled
    from agon_env.printable import printable
    from algos.arena.picture import draw

    console = Console(highlight=False)
    table = Table(box=None, pad_edge=False)
    for column in standings.rows()[0]:
        table.add_column(column, justify="left" if column in ("", "player") else "right", no_wrap=True)
    for row in standings.rows():
        table.add_row(*(Text(printable(cell)) for cell in row.values()))
    console.print(table, "")
    cross = Table(box=None, pad_edge=False)
    cross.add_column("points in %", no_wrap=True)
    for place in range(len(standings.players)):
        cross.add_column(str(place + 1), justify="right", no_wrap=True)
    for row in standings.cross_rows():
        cross.add_row(*(Text(printable(cell.removesuffix(" %"))) for cell in row.values()))
    if console.measure(cross, options=console.options.update(max_width=10_000)).maximum <= console.width:
        console.print(cross, "")
    else:
        console.print("Who did how well against whom, which is too wide for here, is in standings.md.\n")
    console.print(Text(printable(standings.summary())))
    files = ["standings.json", "standings.md", "contests.jsonl"]
    try:
        draw(standings, folder / "ratings.png")
        files.append("ratings.png")
    except DependencyNotInstalled as missing:
        console.print(Text(str(missing)))
    console.print(Text(f"{folder}: {', '.join(files)}"))
