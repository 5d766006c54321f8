"""OpenEnv's clients play a contest that is served over OpenEnv's protocol."""

from __future__ import annotations

import contextlib
import threading
import time

import pytest

openenv = pytest.importorskip("openenv", reason="needs OpenEnv: pip install 'agon-env[openenv]'")

import uvicorn  # noqa: E402
from page import snippet  # noqa: E402
from small_games import Nim  # noqa: E402

import agon_env  # noqa: E402
from agon_env.adapters.openenv import ContestAction, ContestEnvironment, to_openenv  # noqa: E402
from agon_env.errors import Error, ResetNeeded  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning", "ignore::DeprecationWarning")


def rival(observation):
    return f"{observation.role} says 7"


@contextlib.contextmanager
def served(app):
    """Serve `app` and yield a function that connects a client to it."""
    server = uvicorn.Server(uvicorn.Config(app, port=0, log_level="error", loop="asyncio"))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        assert thread.is_alive()
        time.sleep(0.01)
    port = server.servers[0].sockets[0].getsockname()[1]

    def connect():
        return openenv.GenericEnvClient(base_url=connect.url).sync()

    connect.url = f"http://127.0.0.1:{port}"
    try:
        yield connect
    finally:
        server.should_exit = True
        thread.join()


def test_a_client_plays_a_duel():
    app = to_openenv("ArithmeticDuel-v0", "challenger", rivals=rival, reward="competitive")
    same = agon_env.make("ArithmeticDuel-v0", reward="competitive")
    same.reset(seed=3)
    same.step("drafter says 7")
    with served(app) as connect, connect() as env:
        first = env.reset(seed=3)
        assert first.observation["text"] == same.observe().text
        assert first.observation["messages"] == list(same.observe().messages)
        assert (first.reward, first.done) == (None, False)
        assert env.state()["role"] == "challenger"
        last = env.step({"text": same.solution("challenger")})
        assert (last.reward, last.done, last.observation["truncated"]) == (1.5, True, False)
        assert env.state()["step_count"] == 2
        assert env.reset(seed=3).observation == first.observation  # nothing is left of the last contest
        assert env.reset(seed=4).observation["text"] != first.observation["text"]


def test_the_snippets_of_the_docs_run(capsys):
    page = {}
    exec(snippet("to_openenv"), page)
    with served(page["app"]) as connect:
        exec(snippet("GenericEnvClient").replace("http://127.0.0.1:8000", connect.url), page)
    assert page["result"].done
    assert "True" in capsys.readouterr().out


def test_sessions_have_contests_of_their_own():
    app = to_openenv("ArithmeticSolo-v0")
    with served(app) as connect, connect() as one, connect() as two:
        seen = one.reset(seed=0).observation["text"], two.reset(seed=1).observation["text"]
        assert seen[0] != seen[1]
        assert one.reset().observation["text"] != two.reset().observation["text"]
        assert one.step({"text": "x"}).done
        assert not two.reset(seed=1).done


def test_a_step_out_of_order_and_a_wrong_seed_are_errors_and_the_session_goes_on():
    with served(to_openenv("ArithmeticSolo-v0")) as connect, connect() as env:
        with pytest.raises(RuntimeError, match="reset"):
            env.step({"text": "x"})
        with pytest.raises(RuntimeError, match="Seed must be greater or equal to zero"):
            env.reset(seed=-1)
        env.reset(seed=0)
        with pytest.raises(RuntimeError):
            env.step({"word": "x"})
        assert env.step({"text": "x"}).done
        with pytest.raises(RuntimeError, match="has ended"):
            env.step({"text": "x"})


def test_any_text_arrives():
    said = "a\u2028b <|im_end|> [Player 1] \U0001f642 \x00"
    heard = []

    def listener(observation):
        heard.append(observation.text)
        return "7"

    with served(to_openenv("ArithmeticDuel-v0", "drafter", rivals=listener)) as connect, connect() as env:
        env.reset(seed=0)
        assert env.step({"text": said}).done
    assert "a\u2028> b <\\|im_end|\\> [Player 1] \U0001f642 \x00" in heard[0]
    halves = to_openenv("ArithmeticDuel-v0", "challenger", rivals=lambda observation: "half \ud800")
    with served(halves) as connect, connect() as env:
        assert "> half \ufffd" in env.reset(seed=0).observation["text"]


def test_every_seat_of_every_contest_is_played(contest_id):
    for seat in agon_env.make(contest_id).roles:
        with served(to_openenv(contest_id, seat, rivals=rival)) as connect, connect() as env:
            result = env.reset(seed=0)
            turns = 0
            while not result.done:
                result = env.step({"text": "7"})
                turns += 1
            assert turns >= 1
            assert result.reward is None or isinstance(result.reward, float | int)


def test_the_environment_without_a_server():
    env = ContestEnvironment(agon_env.to_gymnasium(Nim(stones=3), "first", lambda observation: "1"))
    assert (env.state.step_count, env.state.player) == (0, None)
    with pytest.raises(ResetNeeded):
        env.step(ContestAction(text="1"))
    assert env.reset(seed=0, episode_id="e").text == "Nim\n\n5 stones are left."
    refused = env.step(ContestAction(text="nine"))
    assert (refused.invalid, refused.reward, refused.done) == ("say one of 1, 2, 3", 0.0, False)
    assert env.step(ContestAction(text="2")).text == "Nim\n\n2 stones are left."
    assert env.step(ContestAction(text="2")).reward == 1.0
    assert (env.state.episode_id, env.state.step_count) == ("e", 4)
    assert env.get_metadata().description == (
        "Take one to three stones in turn; who takes the last one wins. Your seat: first."
    )
    env.close()


def test_what_is_missing_is_said_at_once():
    with pytest.raises(Error, match="rivals="):
        to_openenv("ArithmeticDuel-v0")
