"""`run_arena`: plays what is left of a tournament's schedule, and says how everybody stands."""

from __future__ import annotations

import contextlib
import copy
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import agon_env
from agents.agent import Agent
from agents.playing import Played, play
from agon_env.contest import Contest
from algos.arena.entrants import Entrant
from algos.arena.ratings import Elo, comparisons
from algos.arena.results import Result, ResultsFile, read_results
from algos.arena.schedule import Fixture, fixtures
from algos.arena.standings import Standings, stand
from algos.errors import ConfigError
from algos.evaluate import HELD_OUT_SEEDS
from algos.playing.problem_order import STRIDE, problem_index, task_size
from algos.training.run_folder import write_json, write_text

ARENA = "arena.json"
"""The file that says what a folder's tournament is."""


def run_arena(
    env: str,
    entrants: Sequence[Entrant],
    *,
    out: Path,
    env_options: Mapping[str, Any] | None = None,
    games: int = 20,
    contests: int | None = None,
    seed: int = 0,
    batch: int = 128,
    timeout: float | None = None,
    on_contest: Callable[[int, int, str | None], None] | None = None,
) -> Standings:
    """Play a tournament to its end, going on with what `out` holds of it.

    Contests that are in the folder already are not played again, so the same call goes on after an interruption, and one
    with more games, contests or players adds to it. Every contest is of a held-out problem, where the game has such.

    Args:
        env: id of the contest.
        entrants: who takes part.
        out: folder of the tournament: `arena.json`, `contests.jsonl`, `standings.json`, `standings.md`.
        env_options: of the contest.
        games: problems that every pair plays in both seats; see `fixtures`.
        contests: most contests; None plays the whole schedule.
        seed: of the problems, and of what agents draw.
        batch: contests in lockstep; an agent is asked for all that wait for it in one call.
        timeout: seconds for one such call; who does not answer by then loses these contests. None waits for ever.
        on_contest: told how many contests are over, of how many, and who leads.

    Returns:
        How everybody stands.

    Raises:
        ConfigError: too few players, or the folder holds another tournament.
        FolderFailed: another process holds it.
    """
    empty = _empty_contest(env, env_options or {})
    labels, seats = [entrant.label for entrant in entrants], len(empty.roles)
    if len(labels) < max(2, seats):
        raise ConfigError(f"a tournament of {env} needs at least {max(2, seats)} players, not {len(labels)}: add --players")
    if len(set(labels)) < len(labels):
        raise ConfigError(f"two players have the same label: {', '.join(labels)}")
    if games < 1 or batch < 1 or (contests is not None and contests < 1):
        raise ConfigError("games, contests and batch must be at least 1")
    out.mkdir(parents=True, exist_ok=True)
    schedule = fixtures(labels, seats=seats, games=games, contests=contests, seed=seed)
    agents = {entrant.label: entrant.agent for entrant in entrants}
    elo = Elo()
    with ResultsFile(out) as file:
        _check_same(out, {"env": empty.spec.id, "options": dict(env_options or {}), "seed": seed}, entrants)
        results = {result.fixture: result for result in read_results(out)}
        results = {fixture: results[fixture] for fixture in schedule if fixture in results}
        left = [fixture for fixture in schedule if fixture not in results]
        for result in results.values():
            _count(elo, result)

        def keep(fixture: Fixture, played: Played) -> None:
            results[fixture] = file.add(fixture, played.contest)
            _count(elo, results[fixture])
            if on_contest is not None:
                on_contest(len(results), len(schedule), elo.leader)

        for first in range(0, len(left), batch):
            _play(left[first : first + batch], empty, agents, seed=seed, timeout=timeout, keep=keep)
        standings = stand(entrants, [results[fixture] for fixture in schedule], env=empty.spec.id)
        write_json(out / "standings.json", standings.to_dict())
        write_text(out / "standings.md", standings.markdown())
    return standings


def _play(
    fixtures: Sequence[Fixture],
    empty: Contest,
    agents: Mapping[str, Agent],
    *,
    seed: int,
    timeout: float | None,
    keep: Callable[[Fixture, Played], None],
) -> None:
    """Play some contests in lockstep; what agents draw follows from the first of them."""
    begun, players = [], []
    for fixture in fixtures:
        contest = copy.deepcopy(empty)
        options = {}
        if "index" in contest.option_names:
            options["index"] = problem_index(fixture.game, size=task_size(contest), seed=seed)
        contest.reset(seed=HELD_OUT_SEEDS + seed * STRIDE + fixture.game, options=options)
        labels = dict(zip(contest.roles, fixture.seats, strict=True))
        begun.append(contest)
        players.append({player: agents[labels[role]] for player, role in contest.role_of.items()})
    first = fixtures[0]
    for label in dict.fromkeys(label for fixture in fixtures for label in fixture.seats):
        words = [seed, first.game, *"/".join((*first.seats, label)).encode()]
        if callable(begin := getattr(agents[label], "seed", None)):
            with contextlib.suppress(Exception):  # an agent that fails in this will fail, or not, when it is asked
                begin(int(np.random.SeedSequence(words).generate_state(1)[0]))
    play(begun, players, timeout=timeout, on_end=lambda number, played: keep(fixtures[number], played))


def _empty_contest(env: str, options: Mapping[str, Any]) -> Contest:
    """Return a contest over held-out problems, where the game has such and no option names others."""
    try:
        contest = agon_env.make(env, **options)
        return agon_env.make(contest.spec, **{**contest.held_out, **options}) if contest.held_out else contest
    except (TypeError, ValueError) as error:
        raise ConfigError(str(error)) from error


def _count(elo: Elo, result: Result) -> None:
    if result.known is not None and len(result.known) > 1:
        elo.update(comparisons(result.known))


def _check_same(out: Path, setting: Mapping[str, Any], entrants: Sequence[Entrant]) -> None:
    """Refuse to mix two tournaments in one folder; write down what this one is.

    Raises:
        ConfigError: the game, its options, the seed or what a label stands for is another one.
    """
    file = out / ARENA
    specs = {entrant.label: entrant.spec for entrant in entrants}
    before = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {**setting, "players": {}}
    now = json.loads(json.dumps(setting))
    for name, value in now.items():
        if before[name] != value:
            raise ConfigError(f"{out} holds a tournament with {name}={before[name]!r}, not {value!r}: choose another --out")
    for label, spec in specs.items():
        if before["players"].get(label, spec) != spec:
            raise ConfigError(
                f"in {out} the label {label!r} stands for {before['players'][label]!r}, not {spec!r}: "
                "rename it, or choose another --out"
            )
    write_json(file, {**now, "players": {**before["players"], **specs}})
