"""verifiers v1 plays a contest with one agent for each role."""

from __future__ import annotations

import asyncio
import re
import shutil

import pytest

vf = pytest.importorskip("verifiers.v1", reason="needs verifiers: pip install 'agon-env[verifiers]'")

from openai_stub import serve  # noqa: E402
from page import snippet  # noqa: E402
from verifiers.v1.utils.generic import concrete_type  # noqa: E402
from verifiers.v1.utils.loaders import environment_class, load_environment  # noqa: E402

import agon_env  # noqa: E402
from agon_env.adapters.verifiers import to_verifiers  # noqa: E402
from agon_env.errors import Error  # noqa: E402

pytestmark = [
    pytest.mark.skipif(
        shutil.which("uv") is None, reason="verifiers runs its agents by uv, which is not there: pip install uv"
    ),
    pytest.mark.filterwarnings("ignore::UserWarning"),
]


@pytest.fixture
def rollout(tmp_path, monkeypatch):
    """Return a function that plays the first contest of an environment whose module is made as the docs say."""
    monkeypatch.syspath_prepend(str(tmp_path))

    def run(name, arguments, url, **settings):
        module = re.sub(r"to_verifiers\(.*\)", f"to_verifiers({arguments})", snippet("to_verifiers"))
        (tmp_path / f"{name.replace('-', '_')}.py").write_text(module, encoding="utf-8")
        config = concrete_type(environment_class(name), vf.EnvConfig, origin=vf.Env)
        env = load_environment(config.model_validate({"taskset": {"id": name, "first_seed": 4}, **settings}))
        client = vf.EvalClientConfig(base_url=url, api_key_var="NO_KEY_IS_NEEDED")
        context = vf.ModelContext(model="stub", client=client, sampling=vf.SamplingConfig())

        async def play():
            async with env.serving():
                return await env.run_episode(next(iter(env.taskset)), context)

        return asyncio.run(play())

    return run


def same_contest(*texts, id="ArithmeticDuel-v0", **options):
    env = agon_env.make(id, **options)
    env.reset(seed=4)
    for text in texts:
        env.step(text)
    return env


def test_a_rollout_pays_each_role_by_the_contests_rule(rollout):
    before = same_contest(reward="competitive")
    right, wrong = before.solution("drafter"), "I give up."
    with serve(lambda messages: right if f"> {wrong}" in messages[-1]["content"] else wrong) as (url, asked):
        arguments = '"ArithmeticDuel-v0", reward="competitive", frozen=("drafter",)'
        episode = rollout("my-duel", arguments, url, challenger={"model": "another"})
    assert episode.ok, episode.errors
    drafter, challenger = episode.by_agent["drafter"][0], episode.by_agent["challenger"][0]
    assert (drafter.agent.trainable, challenger.agent.trainable) == (False, True)
    expected = same_contest(wrong, right, reward="competitive").outcome
    assert expected.rewards == {"alice": 0.0, "bob": 1.5}
    for trace, player in ((drafter, "alice"), (challenger, "bob")):
        assert {name: reward.score for name, reward in trace.rewards.items()} == dict(expected.components[player])
        assert sum(reward.score * reward.weight for reward in trace.rewards.values()) == expected.rewards[player]
        assert trace.metrics["score"] == expected.scores[player]
        assert trace.info["contest"]["reason"] == "completed"
    assert [body["model"] for body in asked] == ["stub", "another"]
    assert f"> {wrong}" in asked[1]["messages"][-1]["content"]


def test_a_game_of_many_turns_is_one_conversation_for_each_role(rollout):
    def count_down(messages):
        stones = int(re.findall(r"(\d+) stones", messages[-1]["content"])[-1])
        return str(min(stones, 2))

    agon_env.register("neighbours/Nim-v0", "small_games:Nim", force=True)
    with serve(count_down) as (url, asked):
        episode = rollout("my-nim", '"neighbours/Nim-v0"', url)
    assert episode.ok, episode.errors
    assert len(episode.traces) == 2
    assert sorted(sum(reward.score for reward in trace.rewards.values()) for trace in episode.traces) == [-1.0, 1.0]
    assert asked[0]["messages"][0] == {"role": "system", "content": "Nim"}
    assert max(sum(message["role"] == "assistant" for message in body["messages"]) for body in asked) >= 2


def test_a_server_that_fails_pays_nobody(rollout):
    with serve(lambda messages: None) as (url, _):
        episode = rollout("my-failure", '"ArithmeticDuel-v0"', url)
    (trace,) = episode.traces
    assert not episode.ok
    assert trace.info["contest"]["reason"].startswith("aborted")
    assert set(trace.rewards.values()) == {None}


def test_a_text_that_was_cut_counts_as_cut(rollout):
    agon_env.register("neighbours/Strict-v0", "small_games:Strict", force=True)
    with serve(lambda messages: "1", finish_reason="length") as (url, _):
        episode = rollout("my-cut", '"neighbours/Strict-v0"', url)
    assert episode.traces[0].info["contest"]["reason"] == "forfeit: the text was cut off"


def test_every_contest_has_a_rollout(rollout, contest_id):
    with serve(lambda messages: "I say 7: \\boxed{7}") as (url, _):
        episode = rollout("my-" + contest_id.removesuffix("-v0").lower(), repr(contest_id), url)
    assert episode.ok, episode.errors
    roles = agon_env.make(contest_id).roles
    assert {trace.agent.name for trace in episode.traces} <= set(roles)
    for trace in episode.traces:
        assert trace.info["contest"]["role"] == trace.agent.name
        assert trace.rewards


def test_an_unknown_role_is_refused():
    with pytest.raises(Error, match="no role 'judge'"):
        to_verifiers("ArithmeticDuel-v0", frozen=("judge",))
