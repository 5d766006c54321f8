"""An agent that fails costs its own contests, by the policy that was chosen, and nobody else's."""

import sys
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

import pytest

import agents
import agon_env
from agents.faults import fault_of
from agon_env import Action, NoMove
from agon_env.transcript import Transcript, replay, rescore

GOOD = agents.as_agent(lambda obs: "\\boxed{1}")


def failing(times: int = 10**9) -> agents.Agent:
    """An agent that raises as often as `times`, and plays afterwards."""
    left = iter(range(times))

    def move(_: object) -> str:
        if next(left, None) is not None:
            raise ValueError("boom")
        return "\\boxed{2}"

    return agents.as_agent(move)


def duel(seed: int = 0) -> agon_env.Contest:
    env = agon_env.make("ArithmeticDuel-v0", reward="competitive")
    env.reset(seed=seed)
    return env


def test_forfeit_blames_the_one_that_failed() -> None:
    (played,) = agents.play([duel()], [{"alice": GOOD, "bob": failing()}])
    outcome = played.contest.outcome
    assert outcome is not None
    assert outcome.reason == "forfeit: no move: bob raised ValueError: boom"
    assert outcome.winner == "alice"
    assert played.failed
    assert played.faults == [fault_of(played.contest)] == ["bob raised ValueError: boom"]


def test_abort_pays_nobody() -> None:
    env = duel()
    (played,) = agents.play([env], [{"alice": failing(), "bob": GOOD}], on_fault="abort")
    assert env.outcome is not None
    assert env.outcome.reason.startswith("aborted: no move: alice raised")
    assert set(env.outcome.rewards.values()) == {None}
    assert played.failed


def test_retry_plays_again_from_the_seed() -> None:
    env = duel(seed=5)
    before = env.observe()
    (played,) = agents.play([env], [{"alice": GOOD, "bob": failing(1)}], on_fault="retry")
    assert played.faults == ["bob raised ValueError: boom"]
    assert not played.failed
    assert env.outcome is not None
    assert env.outcome.reason == "completed"
    assert [event.player for event in env.transcript.events] == ["alice", "bob"]
    env.reset(seed=5)
    assert env.observe() == before


def test_retry_gives_up_without_a_winner() -> None:
    (played,) = agents.play([duel()], [{"alice": GOOD, "bob": failing()}], on_fault="retry", retries=2)
    assert len(played.faults) == 3
    assert played.failed
    assert played.contest.outcome is not None
    assert set(played.contest.outcome.rewards.values()) == {None}


def test_other_contests_go_on() -> None:
    """A failure in one contest of a batch is neither that of the rival nor of the contests beside it."""

    def picky(obs: agon_env.Observation) -> str:
        if obs.text == odd:
            raise ValueError("I do not like this one")
        return "\\boxed{3}"

    contests = [duel(seed) for seed in range(6)]
    odd = contests[2].observe().text
    agent = agents.as_agent(picky)
    ended: list[int] = []
    played = agents.play(contests, [{"alice": agent, "bob": GOOD}] * 6, on_end=lambda number, _: ended.append(number))
    assert [number for number, one in enumerate(played) if one.failed] == [2]
    assert sorted(ended) == list(range(6))


class Unready(agents.Agent):
    """Fails when it is told something, as often as `times`; plays well."""

    def __init__(self, method: str, how: Callable[[], Any], times: int = 10**9) -> None:
        self.method, self.how, self.left = method, how, times

    def watch(self, env: Any) -> None:
        self.told("watch")

    def seed(self, seed: int) -> None:
        self.told("seed")

    def told(self, method: str) -> None:
        if method == self.method and self.left:
            self.left -= 1
            self.how()

    def act(self, observations: Sequence[agon_env.Observation]) -> list[Action]:
        return [Action("\\boxed{1}")] * len(observations)


def boom() -> None:
    raise ValueError("boom")


FAILING: dict[str, tuple[Callable[[], Any], str]] = {
    "raises": (boom, "raised ValueError: boom"),
    "exits": (lambda: sys.exit(3), "raised SystemExit: 3"),
    "hangs": (lambda: time.sleep(0.3), "did not answer within 0.05 s"),
}


@pytest.mark.parametrize("how", FAILING)
def test_one_that_fails_to_watch_is_blamed_and_nobody_else(how: str) -> None:
    fails, said = FAILING[how]
    before = threading.active_count()
    contests = [duel(0), duel(1)]
    players = [{"alice": GOOD, "bob": Unready("watch", fails)}, {"alice": GOOD, "bob": GOOD}]
    unwatched, other = agents.play(contests, players, timeout=0.05)
    assert unwatched.faults == [f"bob {said}, in its watch()"]
    assert unwatched.contest.outcome is not None
    assert unwatched.contest.outcome.winner == "alice"
    assert not other.failed
    time.sleep(0.4)
    assert threading.active_count() == before


@pytest.mark.parametrize("how", FAILING)
def test_one_that_fails_at_its_seed_has_no_move_until_it_is_given_one(how: str) -> None:
    fails, said = FAILING[how]
    for timeout in (None, 0.05) if how != "hangs" else (0.05,):
        guard = agents.guarded(Unready("seed", fails, times=1), timeout=timeout)
        guard.seed(1)
        move = guard(duel().observe())
        assert isinstance(move, NoMove)
        assert move.reason == f"alice {said}, in its seed()"
        time.sleep(0.4 if how == "hangs" else 0)
        guard.seed(2)
        assert guard(duel().observe()) == Action("\\boxed{1}")
        assert sum(guard.faults.values()) == 1


def test_a_hanging_agent_leaves_at_most_one_thread() -> None:
    asleep = agents.guarded(lambda obs: time.sleep(0.3) or "late", timeout=0.02)
    before = threading.active_count()
    for seed in range(4):
        assert isinstance(asleep(duel(seed).observe()), NoMove)
    assert threading.active_count() == before + 1
    assert asleep.faults == {"timeout": 4}
    time.sleep(0.4)
    assert threading.active_count() == before


def test_a_loop_is_interrupted() -> None:
    def loop(_: object) -> str:
        while True:
            pass

    before = threading.active_count()
    assert isinstance(agents.guarded(loop, timeout=0.02)(duel().observe()), NoMove)
    time.sleep(0.1)
    assert threading.active_count() == before


def test_the_transcript_of_a_fault_replays() -> None:
    for on_fault in ("forfeit", "abort"):
        (played,) = agents.play([duel()], [{"alice": GOOD, "bob": failing()}], on_fault=on_fault)  # type: ignore[arg-type]
        record = Transcript.from_dict(played.contest.transcript.to_dict())
        assert replay(record).outcome == rescore(record) == played.contest.outcome


def test_a_game_that_says_the_same_of_a_move_replays_as_a_move() -> None:
    """Only the end of the contest tells a player without a move; a complaint with the same words is but a complaint."""
    env = agon_env.make("ArithmeticDuel-v0")
    env.reset(seed=0)
    env.step("no move: at all")
    env.step(Action("\\boxed{1}"))
    assert replay(env.transcript).outcome == env.outcome


def test_wrong_policies_are_refused() -> None:
    with pytest.raises(ValueError, match="on_fault must be"):
        agents.guarded(GOOD, on_fault="ignore")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="timeout must be above 0"):
        agents.guarded(GOOD, timeout=0)
    with pytest.raises(ValueError, match="on_fault must be"):
        agents.play([duel()], [{"alice": GOOD, "bob": GOOD}], on_fault="ignore")  # type: ignore[arg-type]


def test_an_empty_seat_is_named_before_anybody_is_asked() -> None:
    contests = [duel(), duel()]
    with pytest.raises(ValueError, match=r"nobody plays for bob: .* alice, bob, .* for alice, rob"):
        agents.play(contests, [{"alice": GOOD, "bob": GOOD}, {"alice": GOOD, "rob": GOOD}])
    assert [contest.transcript.events for contest in contests] == [[], []]


def test_one_mapping_for_all_contests_is_told_how_to_be_a_list() -> None:
    players = {"alice": GOOD, "bob": GOOD}
    with pytest.raises(TypeError, match=r"\[players\] \* len\(contests\)"):
        agents.play([duel(), duel()], players)  # type: ignore[arg-type]
