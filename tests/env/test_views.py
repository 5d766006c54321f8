"""The views of a contest; `tests/neighbours` runs the official checkers over every registered one."""

from __future__ import annotations

import copy
import math
import pickle

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env as gymnasium_check_env
from toys import Doubling, Nim

import agon_env
from agon_env import to_gymnasium
from agon_env.errors import EpisodeOver, Error, ResetNeeded
from agon_env.games import DraftChallenge, Solo
from agon_env.spaces import TextSpace


def rival(observation):
    return f"{observation.role} says 7"


def nim_rival(observation):
    return "1"


# --- the space --------------------------------------------------------------------------------------


def test_the_text_space_holds_any_text_up_to_its_length():
    space = TextSpace(5)
    assert all(text in space for text in ("", "a b\n", "日本🙂", "\ud800\u2028"))
    assert not any(thing in space for thing in ("123456", None, b"x", 3, ["a"]))


def test_the_text_space_samples_by_seed():
    one, two = TextSpace(100, seed=3), TextSpace(100)
    two.seed(3)
    samples = [one.sample() for _ in range(50)]
    assert samples == [two.sample() for _ in range(50)]
    assert all(sample in one for sample in samples)
    assert len(set(samples)) > 40
    assert {TextSpace(2, seed=i).sample() for i in range(40)} >= {""}
    assert TextSpace(0).sample() == ""


def test_the_text_space_is_a_small_value():
    assert repr(TextSpace(10**9)) == "TextSpace(1000000000)"
    assert TextSpace(3) == TextSpace(3) != TextSpace(4)
    assert TextSpace(3) != gymnasium.spaces.Discrete(3)
    space = TextSpace(9, seed=1)
    for twin in (copy.deepcopy(space), pickle.loads(pickle.dumps(space))):
        assert twin == space
        assert twin.sample() == copy.deepcopy(space).sample()
    with pytest.raises(ValueError, match="negative"):
        TextSpace(-1)
    with pytest.raises(ValueError, match="mask"):
        space.sample(mask=1)


# --- Gymnasium --------------------------------------------------------------------------------------


def test_gymnasium_can_import_agon_env_by_itself():
    env = gymnasium.make("agon_env:agon_env/ArithmeticDuel-v0", seat="challenger", rivals=rival, bonus=0.25)
    text, info = env.reset(seed=0)
    assert "> drafter says 7" in text
    assert info["messages"][-1]["content"] == text
    assert info["role"] == "challenger"
    contest = env.unwrapped.contest
    assert contest.spec.kwargs["bonus"] == 0.25
    _, reward, terminated, truncated, info = env.step(contest.solution("challenger"))
    assert (terminated, truncated, info["unscored"]) == (True, False, False)
    assert reward == contest.outcome.rewards["bob"] >= 1.0


def test_a_contest_registered_later_is_in_gymnasium_too():
    agon_env.register("toys/Nim-v0", "toys:Nim")
    try:
        env = gymnasium.make("agon_env/toys.Nim-v0", rivals=nim_rival)
        gymnasium_check_env(env.unwrapped)
    finally:
        del agon_env.registry["toys/Nim-v0"]
        del gymnasium.registry["agon_env/toys.Nim-v0"]


def test_rivals_play_until_it_is_the_seats_turn():
    env = to_gymnasium(Nim(), "second", {"first": nim_rival})
    text, _ = env.reset(seed=0, options={"stones": 6})
    assert "5 stones" in text
    text, reward, terminated, truncated, _ = env.step("1")
    assert "3 stones" in text
    assert (reward, terminated, truncated) == (0.0, False, False)
    assert env.step("3")[1:4] == (1.0, True, False)


def test_a_seat_may_be_a_player_or_a_role():
    swapped = {"roles": {"alice": "second", "bob": "first"}}
    by_player, by_role = to_gymnasium(Nim(), "alice", nim_rival), to_gymnasium(Nim(), "first", nim_rival)
    assert by_player.reset(seed=0, options=swapped)[1]["role"] == "second"
    assert by_role.reset(seed=0, options=swapped)[1]["role"] == "first"
    assert by_role.player == "bob"


def test_the_default_seat_is_the_first_player():
    env = to_gymnasium(Solo(Doubling()))
    assert env.reset(seed=0)[1]["role"] == "solver"


def test_an_invalid_move_shows_in_info_and_can_be_repeated():
    env = to_gymnasium(Nim(), "first", nim_rival)
    env.reset(seed=0, options={"stones": 6})
    text, _, terminated, _, info = env.step("nine")
    assert "not a legal move" in text
    assert info["invalid"] is not None
    assert not terminated
    assert env.step("nine")[1:3] == (-1.0, True)


def test_a_contest_that_a_rival_loses_at_once_is_paid_at_the_first_step():
    env = to_gymnasium(Nim(), "second", lambda observation: "nonsense")
    text, _ = env.reset(seed=0)
    assert text == ""
    _, reward, terminated, truncated, _ = env.step("anything")
    assert (reward, terminated, truncated) == (1.0, True, False)
    with pytest.raises(EpisodeOver):
        env.step("anything")


def test_a_missing_reward_is_nan_and_said_so():
    env = to_gymnasium(DraftChallenge(Doubling()), "challenger", lambda observation: "unscorable")
    env.reset(seed=0)
    _, reward, terminated, _, info = env.step("4")
    assert math.isnan(reward)
    assert terminated
    assert info["unscored"]


def test_gymnasium_seeds_name_contests_and_unseeded_ones_follow():
    one, two = (to_gymnasium(Solo(Doubling())) for _ in range(2))
    for seed in (7, None, None, np.int64(3).item(), None):
        assert one.reset(seed=seed) == two.reset(seed=seed)
    assert one.reset(seed=7)[0] == Solo(Doubling()).reset(seed=7)[0].text


def test_a_view_says_what_is_missing():
    with pytest.raises(Error, match="rivals="):
        to_gymnasium(Nim(), "first")
    with pytest.raises(Error, match="first, second"):
        to_gymnasium(Nim(), "third", nim_rival)
    env = to_gymnasium(Nim(), "first", {"third": nim_rival})
    env.reset(seed=0)
    with pytest.raises(Error, match=r"nobody plays bob \(second\)"):
        env.step("1")
    with pytest.raises(ResetNeeded):
        to_gymnasium(Nim(), "first", nim_rival).step("1")


def test_rendering_is_text():
    env = to_gymnasium(Nim(), "first", nim_rival, render_mode="ansi")
    env.reset(seed=0)
    env.step("1")
    assert env.render().startswith("[alice, first]\n> 1")
    assert to_gymnasium(Nim(), "first", nim_rival).render() is None


def test_infos_of_different_steps_share_nothing():
    env = to_gymnasium(Nim(), "first", nim_rival)
    _, info = env.reset(seed=0, options={"stones": 9})
    info["messages"][0]["content"] = "spoilt"
    info.clear()
    assert env.step("1")[4]["messages"][0]["content"] == "Nim"


def test_reset_forgets_through_the_view():
    fresh, used = to_gymnasium(Nim(), "second", nim_rival), to_gymnasium(Nim(), "second", nim_rival)
    for texts in (["nine", "nine"], ["1"], ["1", "nine"]):
        used.reset(seed=5)
        for text in texts:
            used.step(text)
        assert used.reset(seed=3) == fresh.reset(seed=3)
        assert used.step("1") == fresh.step("1")


def test_a_rival_that_fails_is_not_replaced_by_the_seat():
    failing = True

    def unreliable(observation):
        if failing:
            raise ConnectionError("the rival's server is down")
        return "1"

    env = to_gymnasium(Nim(), "first", unreliable)
    env.reset(seed=0, options={"stones": 9})
    with pytest.raises(ConnectionError):
        env.step("2")
    with pytest.raises(Error, match=r"bob has yet to move.*reset\(\)"):
        env.step("3")
    assert env.contest.outcome is None
    assert [event.player for event in env.contest.transcript.events] == ["alice"]
    failing = False
    env.reset(seed=0, options={"stones": 9})
    assert "6 stones" in env.step("2")[0]


def test_a_rival_that_fails_in_reset_leaves_nothing_of_the_last_contest():
    def first(observation):
        return next(moves)

    env = to_gymnasium(Nim(), "second", first)
    moves = iter(["bad", "bad"])
    env.reset(seed=0)  # ended at once by the rival's forfeit
    with pytest.raises(StopIteration):
        env.reset(seed=0)
    with pytest.raises(Error, match="alice has yet to move"):
        env.step("1")


def test_a_view_of_a_view_is_refused(zoo):
    for make_view in (lambda env: to_gymnasium(env, "first", nim_rival), zoo):
        with pytest.raises(TypeError, match=r"view\.contest"):
            make_view(make_view(Nim()))


def test_views_forward_nothing_by_accident_and_survive_copies(zoo):
    for view in (to_gymnasium(Nim(), "first", nim_rival), zoo(Nim())):
        assert not hasattr(view, "stones")
        view.reset(seed=3)
        twins = [copy.deepcopy(view), pickle.loads(pickle.dumps(view))]
        for env in (view, *twins):
            env.step("1")
        assert [twin.contest.transcript for twin in twins] == [view.contest.transcript] * 2
        assert [twin.contest.observe() for twin in twins] == [view.contest.observe()] * 2


# --- PettingZoo -------------------------------------------------------------------------------------

COSMETIC = "|".join(
    [
        "Observation is not a NumPy array",
        "Observation space for each agent probably should be",
        "Action space for each agent probably should be",
        "We recommend agents to be named",
        "does not know the reset option 'options'",
    ],
)


@pytest.fixture
def zoo():
    pytest.importorskip("pettingzoo")
    return agon_env.to_pettingzoo


@pytest.mark.filterwarnings("error::UserWarning", f"ignore:.*({COSMETIC})")
def test_a_game_of_many_turns_passes_them_too(zoo):
    from pettingzoo.test import api_test

    api_test(zoo(Nim()), num_cycles=50)


def test_both_agents_get_their_last_reward_also_the_one_that_never_moved(zoo):
    env = zoo(Nim())
    env.reset(seed=0)
    env.step("nonsense")
    env.step("nonsense")
    paid = {}
    for agent in env.agent_iter():
        _, reward, terminated, _, _ = env.last()
        assert terminated
        paid[agent] = reward
        env.step(None)
    assert paid == {"alice": -1.0, "bob": 1.0}
    assert env.agents == []


def test_the_aec_loop_plays_a_game(zoo):
    env = zoo(Nim(players=("x", "y")))
    env.reset(seed=0, options={"stones": 3, "roles": {"x": "second", "y": "first"}})
    paid = {}
    for agent in env.agent_iter():
        obs, reward, terminated, truncated, _ = env.last()
        assert obs in env.observation_space(agent)
        paid[agent] = reward
        env.step(None if terminated or truncated else "1")
    assert paid == {"y": 1.0, "x": -1.0}


def test_a_missing_reward_is_nan_for_pettingzoo_too(zoo):
    env = zoo(DraftChallenge(Doubling()))
    env.reset(seed=0)
    env.step("unscorable")
    env.step("4")
    assert all(math.isnan(reward) for reward in env.rewards.values())
    assert all(info["unscored"] for info in env.infos.values())


def test_reset_forgets_through_the_aec_view(zoo):
    fresh, used = zoo(Nim()), zoo(Nim())
    used.reset(seed=5)
    used.step("nine")
    used.step("nine")
    for env in (fresh, used):
        env.reset(seed=3)
    assert used.last() == fresh.last()
    assert (used.agents, used.rewards, used.infos) == (fresh.agents, fresh.rewards, fresh.infos)


def test_none_is_no_action_while_alive(zoo):
    env = zoo(Nim())
    env.reset(seed=0)
    with pytest.raises(TypeError, match="NoneType"):
        env.step(None)
