"""Contests in lockstep."""

from __future__ import annotations

import gc
import time
import tracemalloc
from contextlib import nullcontext
from itertools import islice
from typing import ClassVar

import pytest
from toys import Doubling, Nim

import agon_env
from agon_env.errors import EpisodeOver, Error, ResetNeeded
from agon_env.games import DraftChallenge
from agon_env.types import Action
from agon_env.vector import MANY, VectorContest
from agon_env.verifiers import Verdict


def nims(n):
    return VectorContest([Nim() for _ in range(n)])


def test_the_loop_of_the_docs():
    contests = agon_env.make_vec("ArithmeticDuel-v0", 8, bonus=0.25)
    contests.reset(seed=0)
    asked = 0
    while not contests.done:
        waiting = contests.pending()
        asked += len(waiting)
        contests.step({index: contests.envs[index].solution(obs.role) for index, obs in waiting.items()})
    assert asked == 16
    assert [outcome.rewards for outcome in contests.outcomes] == [{"alice": 1.0, "bob": 1.0}] * 8
    assert contests.pending() == {}
    contests.close()


def test_contests_share_their_task_and_nothing_else():
    contests = agon_env.make_vec("ArithmeticDuel-v0", 3)
    assert len({id(env) for env in contests.envs}) == 3
    assert len({id(env.task) for env in contests.envs}) == 1


@pytest.mark.parametrize("how", [{"seed": 5}, {"seeds": [5, 6, 7]}])
def test_seeds_name_the_contests(how):
    contests = nims(3)
    shown = contests.reset(**how)
    alone = Nim()
    assert {index: alone.reset(seed=5 + index) for index in range(3)} == shown
    assert contests.pending() == {index: obs for index, (obs, _) in shown.items()}


def test_actions_come_with_the_index_of_their_contest():
    contests = nims(2)
    contests.reset(seed=0)
    with pytest.raises(TypeError, match=r"for example dict\(zip\(contests.pending\(\), texts\)\), not a list"):
        contests.step(["1", "1"])
    assert not any(env.transcript.events for env in contests.envs)


def test_reset_forgets_the_last_contests():
    contests = nims(2)
    first = contests.reset(seed=3)
    contests.step({0: "nine"})
    assert contests.reset(seed=3) == first
    assert contests.outcomes == [None, None]


def test_options_are_for_all_or_one_each():
    contests = nims(2)
    contests.reset(seed=0, options={"stones": 7})
    assert [env.stones for env in contests.envs] == [7, 7]
    contests.reset(seed=0, options=[{"stones": 7}, {"stones": 8, "roles": {"alice": "second", "bob": "first"}}])
    assert [env.stones for env in contests.envs] == [7, 8]
    assert [obs.player for obs in contests.pending().values()] == ["alice", "bob"]


@pytest.mark.parametrize(
    "arguments",
    [{"seed": 1, "seeds": [1, 2]}, {"seeds": [1]}, {"seeds": "12"}, {"seed": 0, "options": [{}]}],
)
def test_wrong_seeds_and_options_are_refused(arguments):
    with pytest.raises(Error, match=r"either seed or seeds|one value per contest"):
        nims(2).reset(**arguments)


def test_only_the_named_contests_move():
    contests = nims(3)
    contests.reset(seed=0, options={"stones": 9})
    results = contests.step({2: "3", 0: Action("1")})
    assert list(results) == [2, 0]
    assert [env.stones for env in contests.envs] == [8, 9, 6]
    assert results[0][0] == contests.envs[0].observe()


@pytest.mark.parametrize(
    ("action", "index", "error"),
    [
        (None, 1, TypeError),
        (Action(3), 1, TypeError),
        ("1", 3, Error),
        ("1", -1, Error),
        ("1", "1", Error),
        ("1", 2, EpisodeOver),
    ],
)
def test_a_bad_action_raises_before_any_contest_has_moved(action, index, error):
    contests = nims(3)
    contests.reset(seed=0, options=[{"stones": 9}, {"stones": 9}, {"stones": 1}])
    contests.step({2: "1"})
    with pytest.raises(error) as caught:
        contests.step({0: "1", index: action})
    assert contests.envs[0].turn == 0
    assert str(index) in "".join([str(caught.value), *getattr(caught.value, "__notes__", [])])


def test_contests_end_at_different_times():
    contests = nims(2)
    contests.reset(seed=0, options=[{"stones": 1}, {"stones": 2}])
    contests.step({0: "1", 1: "1"})
    assert list(contests.pending()) == [1]
    assert [outcome is None for outcome in contests.outcomes] == [False, True]
    assert not contests.done


def test_before_reset_nothing_is_pending():
    for call in (nims(1).pending, lambda: nims(1).step({0: "1"}), lambda: nims(1).done):
        with pytest.raises(ResetNeeded):
            call()


def test_contests_in_mid_course_can_be_joined():
    env = Nim()
    env.reset(seed=0, options={"stones": 9})
    contests = VectorContest([env, env.fork(), env.fork()])
    contests.step({0: "1", 1: "2", 2: "3"})
    assert [each.stones for each in contests.envs] == [8, 7, 6]
    with pytest.raises(Error, match="given twice"):
        VectorContest([env, env])


@pytest.mark.slow
def test_the_cost_of_a_turn_is_flat():
    def cost(n: int, rounds: int) -> float:
        best = float("inf")
        for _ in range(rounds):
            contests = VectorContest([DraftChallenge(task) for _ in range(n)])
            contests.reset(seed=0)
            begin = time.process_time()
            while not contests.done:
                contests.step(dict.fromkeys(contests.pending(), "a draft of some words"))
            best = min(best, (time.process_time() - begin) / (2 * n))
        return best

    task = Doubling()
    gc.collect()
    gc.disable()  # how often Python looks through everything depends on what else the process holds
    try:
        assert cost(4096, 4) < 2 * cost(64, 100)
    finally:
        gc.enable()


def test_the_transcript_is_not_copied_each_turn():
    """Memory per turn does not grow with the number of turns that were made."""

    class Long(Nim):
        rounds, max_turns = 200, 10**6

        def apply(self, role, text):
            self.mover = "second" if role == "first" else "first"

    contests = VectorContest([Long() for _ in range(8)])
    contests.reset(seed=0)

    def allocated(turns: int) -> int:
        gc.collect()  # which also empties Python's own stores of used objects, that tracemalloc does not see
        tracemalloc.start()
        for _ in range(turns):
            contests.step(dict.fromkeys(contests.pending(), "a move"))
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return peak

    first = allocated(20)
    allocated(300)
    assert allocated(20) < 2 * first
    assert all(len(env.transcript.events) == 340 for env in islice(contests.envs, 8))


class Counting:
    """Counts how often it is asked; pays for the gold alone."""

    def __init__(self):
        self.calls = []

    def score(self, completion, gold):
        return self.score_many([(completion, gold)])[0]

    def score_many(self, pairs):
        self.calls.append(len(pairs))
        return [Verdict(float(completion == gold), completion, "compared") for completion, gold in pairs]


def counted(cls=DraftChallenge, n=5):
    task = Doubling()
    task.verifier = Counting()
    contests = VectorContest([cls(task) for _ in range(n)])
    contests.reset(seed=0)
    return contests, task.verifier


def test_the_answers_of_a_step_are_verified_in_one_call():
    contests, verifier = counted()
    contests.step(dict.fromkeys(contests.pending(), "wrong"))
    results = contests.step({i: contests.envs[i].problem.answer for i in contests.pending()})
    assert verifier.calls == [10]
    assert all(terminated and info["invalid"] is None for _, _, terminated, _, info in results.values())
    alone = []
    for i in range(5):
        twin = DraftChallenge(contests.envs[i].task)
        twin.reset(seed=i)
        twin.step("wrong")
        twin.step(twin.problem.answer)
        alone.append(twin.outcome)
    assert contests.outcomes == alone


def test_a_game_that_scores_in_its_own_way_is_asked_itself():
    class Generous(DraftChallenge):
        def score(self):
            return dict.fromkeys(self.roles, 1.0)

    contests, verifier = counted(Generous)
    for _ in range(2):
        contests.step(dict.fromkeys(contests.pending(), "wrong"))
    assert verifier.calls == []
    assert [set(outcome.scores.values()) for outcome in contests.outcomes] == [{1.0}] * 5


def test_contests_of_several_kinds_and_tasks_end_in_one_step():
    contests = VectorContest([Nim(), *counted(n=2)[0].envs, *counted(n=1)[0].envs, Nim()])
    contests.reset(seed=0, options=[{"stones": 1}, None, None, None, {"stones": 9}])
    contests.step(dict.fromkeys([1, 2, 3], "draft"))
    contests.step({0: "1", 1: "a", 2: "b", 3: contests.envs[3].problem.answer, 4: "nine"})
    assert [outcome is not None for outcome in contests.outcomes] == [True, True, True, True, contests.envs[4].done]
    assert [contests.outcomes[i].scores["bob"] for i in (1, 2, 3)] == [0.0, 0.0, 1.0]


class Watching(Nim):
    """Notes whether Python searches for cycles."""

    searching: ClassVar[dict[str, bool]] = {}

    def note(self, when):
        self.searching[when] = gc.isenabled()

    def setup(self, rng, options):
        self.note("reset")
        super().setup(rng, options)

    def apply(self, role, text):
        self.note("move")
        return super().apply(role, text)

    def score(self):
        self.note("score")
        return super().score()

    def verdicts(self):
        self.note("end")
        return super().verdicts()


class Breaks(Watching):
    def apply(self, role, text):
        self.note("move")
        raise ZeroDivisionError


@pytest.mark.parametrize("kind", [Watching, Breaks])
@pytest.mark.parametrize("n", [MANY, MANY + 1])
@pytest.mark.parametrize("searching", [True, False])
def test_the_search_for_cycles_waits_for_many_contests_but_not_for_their_verifier(kind, n, searching):
    was = gc.isenabled()
    (gc.enable if searching else gc.disable)()
    kind.searching.clear()
    try:
        contests = VectorContest([kind() for _ in range(n)])
        contests.reset(seed=0, options={"stones": 1})
        with pytest.raises(ZeroDivisionError) if kind is Breaks else nullcontext():
            contests.step(dict.fromkeys(contests.pending(), "1"))
        assert gc.isenabled() == searching
        inside = searching and n <= MANY
        expected = {"reset": inside, "move": inside}
        assert kind.searching == (expected if kind is Breaks else {**expected, "score": searching, "end": inside})
    finally:
        (gc.enable if was else gc.disable)()


def test_a_turn_leaves_nothing_that_the_search_for_cycles_goes_through():
    class Long(Nim):
        rounds, max_turns = 200, 10**6

        def apply(self, role, text):
            self.mover = "second" if role == "first" else "first"

    def searched(turns):
        for _ in range(turns):
            contests.step(dict.fromkeys(contests.pending(), "a move"))
        return len(gc.get_objects())

    contests = VectorContest([Long() for _ in range(MANY + 1)])
    contests.reset(seed=0)
    was = gc.isenabled()
    gc.disable()  # which would drop some objects by itself
    try:
        before = searched(2)
        assert searched(20) <= before + MANY
    finally:
        (gc.enable if was else gc.disable)()
