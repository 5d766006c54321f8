"""A tournament: ratings, draws, failures, going on after an interruption, games for one and for three players."""

import json
import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import agents
import agon_env
from agents.agent import Agent
from agon_env.contest import Contest
from agon_env.transcript import replay
from agon_env.types import Action, Observation
from algos.arena.entrants import Entrant
from algos.arena.picture import draw
from algos.arena.results import Result, ResultsFile
from algos.arena.schedule import Fixture
from algos.arena.standings import Standings, stand
from algos.arena.tournament import run_arena
from algos.errors import ConfigError, FolderFailed
from algos.training.contest_log import read_contests

EASY = {"difficulty": 2}


class Counting(Agent):
    """Counts what it is asked, and in how large batches; says what another agent says."""

    def __init__(self, agent: Agent) -> None:
        self.agent, self.asked, self.batches = agent, 0, 0

    def watch(self, env: Any) -> None:
        self.agent.watch(env)  # type: ignore[attr-defined]

    def act(self, observations: Sequence[Observation]) -> Sequence[Action]:
        self.asked, self.batches = self.asked + len(observations), self.batches + 1
        return self.agent.act(observations)


def entrant(label: str, agent: Agent | Callable[[Observation], str] | None = None) -> Entrant:
    return Entrant(label, agents.make(label) if agent is None else agents.as_agent(agent), label)


def counted(*labels: str) -> tuple[list[Entrant], dict[str, Counting]]:
    counting = {label: Counting(agents.make(label)) for label in labels}
    return [entrant(label, agent) for label, agent in counting.items()], counting


def hold(out: Path, entrants: Sequence[Entrant], **options: Any) -> Standings:
    options = {"env": "ArithmeticDuel-v0", "env_options": EASY, "games": 3, **options}
    return run_arena(options.pop("env"), entrants, out=out, **options)


def by_label(standings: Standings) -> dict[str, Any]:
    return {one.label: one for one in standings.players}


def plain(standings: Standings) -> dict[str, Any]:
    return json.loads(json.dumps(standings.to_dict()))


def test_the_oracle_wins_and_both_seats_are_played(tmp_path: Path) -> None:
    standings = hold(tmp_path, [entrant(label) for label in ("random", "oracle", "copycat")], games=5)
    assert standings.players[0].label == "oracle"
    oracle = by_label(standings)["oracle"]
    # the copycat that answers the oracle's draft is as right as it
    assert (oracle.wins, oracle.draws, oracle.losses) == (15, 5, 0)
    assert standings.cross["oracle"]["copycat"] == (0.75, 10)
    assert standings.cross["copycat"]["oracle"] == (0.25, 10)
    assert (standings.contests, standings.decided, standings.drawn) == (30, 15, 15)
    assert oracle.rating.low > by_label(standings)["random"].rating.high
    contests = list(read_contests(tmp_path / "contests.jsonl"))
    assert len(contests) == 30
    drafters = {record["policies"]["alice"] for record, _ in contests}
    assert drafters == {"random", "oracle", "copycat"}
    assert json.loads((tmp_path / "standings.json").read_text(encoding="utf-8")) == plain(standings)
    assert "| 1 | oracle |" in (tmp_path / "standings.md").read_text(encoding="utf-8")


def test_every_transcript_is_kept_and_replays(tmp_path: Path) -> None:
    hold(tmp_path, [entrant("random"), entrant("copycat")], games=2)
    for record, transcript in read_contests(tmp_path / "contests.jsonl"):
        assert replay(transcript).outcome == transcript.outcome
        assert transcript.header.kwargs["split"] == "test"  # held-out problems
        assert transcript.header.details["problem"]
        assert record["step"] in (0, 1)
    games = {}
    for record, transcript in read_contests(tmp_path / "contests.jsonl"):
        games.setdefault(record["step"], set()).add(transcript.header.details["problem"])
    assert all(len(problems) == 1 for problems in games.values())  # the same problem in both seats
    assert games[0] != games[1]


def test_agents_are_asked_in_batches(tmp_path: Path) -> None:
    entrants, counting = counted("oracle", "copycat", "random")
    hold(tmp_path, entrants, games=8, batch=64)
    assert {agent.asked for agent in counting.values()} == {32}
    assert all(agent.batches == 2 for agent in counting.values())


@pytest.mark.parametrize("after", [1, 5, 11])
@pytest.mark.parametrize("torn", [False, True])
def test_an_interrupted_tournament_goes_on_and_plays_nothing_twice(tmp_path: Path, after: int, torn: bool) -> None:
    whole = hold(tmp_path / "whole", [entrant(label) for label in ("oracle", "copycat")], games=6)

    def stop(done: int, total: int, leader: str | None) -> None:
        if done == after:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        hold(tmp_path / "cut", [entrant(label) for label in ("oracle", "copycat")], games=6, batch=4, on_contest=stop)
    file = tmp_path / "cut" / "contests.jsonl"
    lines = file.read_bytes().split(b"\n")[:-1]
    assert len(lines) == after
    if torn:
        file.write_bytes(b"\n".join(lines)[:-9])
    entrants, counting = counted("oracle", "copycat")
    seen = []
    resumed = hold(tmp_path / "cut", entrants, games=6, batch=4, on_contest=lambda done, total, _: seen.append((done, total)))
    left = 12 - after + torn
    assert seen == [(number, 12) for number in range(12 - left + 1, 13)]
    assert counting["oracle"].asked == left
    assert plain(resumed) == plain(whole)
    assert [record["contest"] for record, _ in read_contests(file)] == list(range(12))


def test_more_games_and_players_add_to_a_tournament(tmp_path: Path) -> None:
    hold(tmp_path, [entrant("oracle"), entrant("copycat")], games=2)
    entrants, counting = counted("oracle", "copycat")
    hold(tmp_path, entrants, games=3)
    assert counting["oracle"].asked == 2
    entrants, counting = counted("oracle", "copycat", "random")
    assert hold(tmp_path, entrants, games=3).contests == 18
    assert (counting["oracle"].asked, counting["random"].asked) == (6, 12)
    assert hold(tmp_path, [entrant("oracle"), entrant("random")], games=3).contests == 6  # the others are left out


def test_another_tournament_is_not_mixed_into_a_folder(tmp_path: Path) -> None:
    pair = [entrant("oracle"), entrant("copycat")]
    hold(tmp_path, pair, games=1)
    for options in ({"seed": 1}, {"env": "SubsetSumDuel-v0", "env_options": {}}, {"env_options": {"difficulty": 3}}):
        with pytest.raises(ConfigError, match="choose another --out"):
            hold(tmp_path, pair, games=1, **options)
    with pytest.raises(ConfigError, match="stands for 'copycat'"):
        hold(tmp_path, [pair[0], Entrant("copycat", agents.make("random"), "random")], games=1)


def test_two_processes_do_not_write_to_one_folder(tmp_path: Path) -> None:
    pair = [entrant("oracle"), entrant("copycat")]
    hold(tmp_path, pair, games=1)
    settings = (tmp_path / "arena.json").read_text(encoding="utf-8")
    with ResultsFile(tmp_path), pytest.raises(FolderFailed, match="another process"):
        hold(tmp_path, [*pair, entrant("random")], games=2)
    assert (tmp_path / "arena.json").read_text(encoding="utf-8") == settings  # it belongs to the other process
    assert hold(tmp_path, pair, games=2).contests == 4


def test_too_few_players_and_wrong_numbers_are_sentences(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="at least 2 players"):
        hold(tmp_path, [entrant("oracle")])
    with pytest.raises(ConfigError, match="same label"):
        hold(tmp_path, [entrant("oracle"), entrant("oracle")])
    with pytest.raises(ConfigError, match="at least 1"):
        hold(tmp_path, [entrant("oracle"), entrant("random")], games=0)
    with pytest.raises(ConfigError, match="nonsense"):
        hold(tmp_path, [entrant("oracle"), entrant("random")], env_options={"nonsense": 1})


def test_who_fails_loses_and_is_counted_and_the_others_are_rated(tmp_path: Path) -> None:
    def raises(observation: Observation) -> str:
        raise RuntimeError("out of ideas")

    def silent(observation: Observation) -> Any:
        return None

    def hangs(observation: Observation) -> str:
        while True:
            time.sleep(0.01)

    entrants = [entrant("oracle"), entrant("random"), entrant("raises", raises), entrant("silent", silent)]
    standings = hold(tmp_path, [*entrants, entrant("hangs", hangs)], games=2, timeout=0.3)
    found = by_label(standings)
    assert standings.contests == standings.decided + standings.drawn + standings.unknown == 40
    assert standings.failed == sum(one.failures for one in standings.players) > 20
    assert [found[label].failures for label in ("oracle", "random")] == [0, 0]
    assert all(found[label].wins == 0 or found[label].failures >= 8 for label in ("raises", "silent", "hangs"))
    assert {one.label for one in standings.players[:2]} == {"oracle", "random"}


def test_an_agent_whose_seed_fails_is_played_all_the_same(tmp_path: Path) -> None:
    class Odd(Agent):
        def seed(self, seed: int) -> None:
            raise RuntimeError("no seeds here")

        def act(self, observations: Sequence[Observation]) -> list[Action]:
            return [Action("\\boxed{0}")] * len(observations)

    assert hold(tmp_path, [entrant("oracle"), entrant("odd", Odd())], games=1).failed == 0


def test_what_random_players_draw_follows_from_the_seed(tmp_path: Path) -> None:
    texts = []
    for name, seed in (("a", 0), ("b", 0), ("c", 1)):
        hold(tmp_path / name, [Entrant("x", agents.make("random"), "random"), entrant("copycat")], seed=seed, games=2)
        texts.append([event.text for _, one in read_contests(tmp_path / name / "contests.jsonl") for event in one.events])
    assert texts[0] == texts[1] != texts[2]


# --- games for one and for three ----------------------------------------------------------------------


class Bids(Contest):
    """Three players name a number; the score is how high it is."""

    roles = ("first", "second", "third")

    def setup(self, rng: np.random.Generator, options: Mapping[str, Any]) -> None:
        self.bids: dict[str, float] = {}

    def prompt(self, role: str) -> str:
        return "Bid from 0 to 9."

    def apply(self, role: str, text: str) -> None:
        self.bids[role] = float(text) / 9

    def score(self) -> dict[str, float | None]:
        return dict(self.bids)


@pytest.fixture
def bids() -> Any:
    agon_env.register("arena-tests/Bids-v0", Bids)
    yield "arena-tests/Bids-v0"
    del agon_env.registry["arena-tests/Bids-v0"]


def test_three_players_are_rated_by_their_placement(tmp_path: Path, bids: str) -> None:
    entrants = [entrant(f"says-{bid}", lambda _, bid=bid: str(bid)) for bid in (3, 7, 5, 5.0)]
    standings = hold(tmp_path, entrants, env=bids, env_options={}, games=10)
    order = [one.label for one in standings.players]
    assert (order[0], order[-1]) == ("says-7", "says-3")
    found = by_label(standings)
    assert found["says-5"].rating.value == pytest.approx(found["says-5.0"].rating.value, abs=60)
    assert standings.cross["says-5"]["says-5.0"][0] == 0.5
    assert all(one.contests >= 10 for one in standings.players)


def test_alone_players_are_compared_on_the_same_problem(tmp_path: Path) -> None:
    standings = hold(tmp_path, [entrant("oracle"), entrant("random"), entrant("copycat")], env="ArithmeticSolo-v0", games=4)
    found = by_label(standings)
    assert standings.contests == 12
    assert (found["oracle"].wins, found["oracle"].draws, found["oracle"].losses) == (8, 0, 0)
    assert standings.players[0].label == "oracle"


# --- counting -------------------------------------------------------------------------------------------


def test_results_are_counted_and_those_without_a_reward_are_not_rated() -> None:
    def result(game: int, seats: str, rewards: Sequence[float | None], **how: Any) -> Result:
        return Result(Fixture(game, tuple(seats)), dict(zip(seats, rewards, strict=True)), **how)

    results = [
        result(0, "ab", (1.0, 0.0)),
        result(0, "ba", (0.5, 0.5)),
        result(1, "ab", (None, 1.0)),
        result(1, "ba", (0.0, 1.0), forfeited="b", failed=True),
        result(2, "ab", (0.0, 1.0), forfeited="a"),
    ]
    standings = stand([entrant("a", lambda _: ""), entrant("b", lambda _: "")], results, env="Game-v0")
    a, b = (by_label(standings)[label] for label in "ab")
    assert (a.contests, a.wins, a.draws, a.losses, a.forfeits, a.failures) == (5, 2, 1, 1, 1, 0)
    assert (b.wins, b.draws, b.losses, b.forfeits, b.failures) == (1, 1, 2, 0, 1)
    assert a.reward == pytest.approx(2.5 / 4)
    assert (standings.decided, standings.drawn, standings.unknown, standings.forfeited, standings.failed) == (3, 1, 1, 1, 1)
    assert standings.cross["a"]["b"] == (2.5 / 4, 4)
    assert a.rating.value > b.rating.value


HOSTILE = ("a|b", "a\n| b |\n\n<script>", "$\\frac{$", "$x^$", "\x1b[31m\u202e\ud800", "[a](javascript:b)", "x" * 5000)


def test_labels_break_no_table_and_no_figure(tmp_path: Path) -> None:
    for env in ("Game-v0", HOSTILE[1], HOSTILE[2]):
        states = [replace(entrant(label, lambda _: ""), policy=label, step=3) for label in HOSTILE]
        for entrants in ([replace(state, step=None) for state in states], states):
            standings = stand(entrants, [], env=env)
            table = standings.markdown()
            assert len(table.rstrip("\n").split("\n")) == 2 + 2 * (2 + len(HOSTILE)) + 1
            assert "| `a\\|b` |" in table
            assert table.replace("\n", "").isprintable()
            assert not re.search(r"<script>|\[a\]\(", re.sub("`[^`]*`", "", table))
            assert not any("\x1b" in text for row in standings.rows() for text in row.values())
            pytest.importorskip("matplotlib", reason="no figures without matplotlib")
            draw(standings, tmp_path / "ratings.png")


# --- many, some of which fail -----------------------------------------------------------------------------


@pytest.mark.slow
def test_a_thousand_contests_of_sixty_four_agents_of_which_a_tenth_fails(tmp_path: Path) -> None:
    def raises(observation: Observation) -> str:
        raise ValueError("no")

    def hangs(observation: Observation) -> str:
        while True:
            time.sleep(0.01)

    def wrong(observation: Observation) -> Any:
        return 7

    bad = {f"bad{number}": (raises, hangs, wrong)[number % 3] for number in range(6)}
    entrants = [entrant(label, agent) for label, agent in bad.items()]
    entrants += [Entrant(f"r{number}", agents.make("random"), "random") for number in range(40)]
    entrants += [Entrant(f"o{number}", agents.make("oracle"), "oracle") for number in range(18)]
    standings = hold(tmp_path, entrants, games=1, contests=1000, timeout=0.5)
    assert len(entrants) == 64
    assert standings.contests == standings.decided + standings.drawn == 1000
    assert standings.unknown == 0
    assert sum(one.contests for one in standings.players) == 2000
    # who meets a failing rival after it has lost does not get to move: every contest of a failing agent is lost by one
    assert standings.failed == sum(
        bool(set(record["seats"]) & set(bad)) for record, _ in read_contests(tmp_path / "contests.jsonl")
    )
    assert all((one.failures > 0) == (one.label in bad) for one in standings.players)
    best = [one.label[0] for one in standings.players]
    assert best[:18] == ["o"] * 18
