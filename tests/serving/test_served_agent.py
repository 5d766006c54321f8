"""`openai:MODEL@URL` plays against `agon serve`."""

from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("starlette", reason='the server needs: pip install "agon-env[serve]"')
pytest.importorskip("uvicorn", reason='the server needs: pip install "agon-env[serve]"')
pytest.importorskip("openai", reason='the player needs: pip install "agon-env[openai]"')

from small_run import Running, make_run, serving

import agents
import agon_env
from agents.errors import Error, ServerFailed
from algos.trained import load_trained


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_run(tmp_path_factory.mktemp("runs"))


@pytest.fixture(scope="module")
def server(run: Path) -> Iterator[Running]:
    with serving(run) as running:
        yield running


def test_served_policies_play_a_duel_as_the_policies_themselves_do(server: Running, run: Path) -> None:
    policies = load_trained(run).policies
    params = agents.SamplingParams(max_tokens=24, temperature=0.0)
    served = {name: agents.make(f"openai:{name}@{server.url}", temperature=0.0) for name in policies}
    local = {name: policy.with_params(params) for name, policy in policies.items()}
    transcripts = []
    for players in (served, local):
        contests = [agon_env.make("ArithmeticDuel-v0", difficulty=2) for _ in range(6)]
        for seed, contest in enumerate(contests):
            contest.reset(seed=seed)
        agents.play(contests, [players] * len(contests))
        transcripts.append([[(e.player, e.text, e.truncated) for e in contest.transcript.events] for contest in contests])
    assert transcripts[0] == transcripts[1]
    assert served["alice"].tokens_spent > 0


def test_the_pair_plays_a_contest_with_one_seat_and_a_seed_repeats_it(server: Running) -> None:
    env = agon_env.make("ArithmeticSolo-v0", difficulty=2)
    texts = []
    for _ in range(2):
        player = agents.make(f"openai:pair@{server.url}", temperature=2.0, max_tokens=16, seed=4)
        obs, _ = env.reset(seed=1)
        env.step(player(obs))
        texts.append(env.transcript.events[0].text)
    assert env.outcome is not None
    assert texts[0] == texts[1] != ""


def test_a_server_that_refuses_or_is_not_there_is_a_sentence(server: Running) -> None:
    obs, _ = agon_env.make("ArithmeticSolo-v0").reset(seed=0)
    with pytest.raises(ServerFailed, match="there is no model 'nobody'"):
        agents.make(f"openai:nobody@{server.url}")(obs)
    nowhere = agents.make("openai:pair@http://127.0.0.1:9/v1")
    nowhere._client = nowhere._client.with_options(max_retries=0)
    with pytest.raises(ServerFailed, match="gave no answer"):
        nowhere(obs)


@pytest.mark.parametrize("place", ["pair", "pair@localhost:8000", "@http://localhost/v1", ""])
def test_a_place_that_is_none_is_refused(place: str) -> None:
    with pytest.raises(Error, match="MODEL@URL"):
        agents.make(f"openai:{place}")
