"""Many, slow and gone clients: who waits, who is refused, whose work is ended, and what can not stop the server."""

import asyncio
import contextlib
import json
import socket
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("starlette", reason='the server needs: pip install "agon-env[serve]"')
pytest.importorskip("uvicorn", reason='the server needs: pip install "agon-env[serve]"')
openai = pytest.importorskip("openai", reason="the official client: pip install openai")

from limited_server import ASKED, HEAD, LIMITS, QUESTION, answers, call, is_soon  # noqa: E402
from scripted_engine import ScriptedEngine  # noqa: E402
from small_run import Running, serving  # noqa: E402

from algos.serving import server as server_module  # noqa: E402
from algos.serving.app import Limits  # noqa: E402
from algos.serving.models import served_models  # noqa: E402
from algos.serving.server import PatientProtocol  # noqa: E402
from algos.training.trained import load_trained  # noqa: E402

pytestmark = pytest.mark.usefixtures("quick")


def test_two_hundred_at_once_are_all_answered_and_in_batches(run: Path, engine: ScriptedEngine) -> None:
    engine.batches.clear()
    with serving(run, limits=Limits(concurrency=256), engine=engine) as server:

        async def ask() -> list[str]:
            async with openai.AsyncOpenAI(base_url=server.url, api_key="unused", max_retries=0) as client:

                async def one(number: int) -> str:
                    reply = await client.chat.completions.create(model="pair", messages=QUESTION, max_tokens=1 + number % 7)
                    return reply.choices[0].message.content

                return await asyncio.gather(*map(one, range(200)))

        assert asyncio.run(ask()) == ["7" * (1 + number % 7) for number in range(200)]
        assert server.chat.busy == 0
    assert max(engine.batches) > 20
    assert max(engine.batches) <= 64


def test_more_than_the_limit_are_told_when_to_come_back(server: Running, engine: ScriptedEngine) -> None:
    engine.seconds = 0.01

    async def ask() -> list[Any]:
        async with openai.AsyncOpenAI(base_url=server.url, api_key="unused", max_retries=0) as client:
            asked = (client.chat.completions.create(**{**ASKED, "max_tokens": 40}) for _ in range(30))
            return await asyncio.gather(*asked, return_exceptions=True)

    found = asyncio.run(ask())
    refused = [one for one in found if isinstance(one, openai.RateLimitError)]
    assert len(refused) == 26
    assert {one.response.headers["retry-after"] for one in refused} == {"1"}
    assert {one.type for one in refused} == {"rate_limit_error"}
    assert sum(not isinstance(one, Exception) for one in found) == 4
    assert is_soon(lambda: server.chat.busy == 0)
    assert answers(server)


def test_choices_count_as_completions(server: Running) -> None:
    assert call(server, body=json.dumps({**ASKED, "n": 4}).encode()).status == 200
    server.chat.busy += 2
    try:
        assert call(server, body=json.dumps({**ASKED, "n": 3}).encode()).status == 429
    finally:
        server.chat.busy -= 2
    assert call(server, body=json.dumps({**ASKED, "n": 5}).encode()).status == 400  # never possible: no use in trying again


@pytest.mark.parametrize("stream", [False, True])
def test_a_client_that_goes_has_its_work_ended(server: Running, engine: ScriptedEngine, stream: bool) -> None:
    engine.seconds = 0.002
    body = json.dumps({**ASKED, "max_tokens": 2000, "stream": stream}).encode()
    connection = socket.create_connection(("127.0.0.1", server.port), timeout=10)
    connection.sendall(HEAD + f"Content-Length: {len(body)}\r\n\r\n".encode() + body)
    if stream:
        assert connection.recv(100).startswith(b"HTTP/1.1 200")
    assert is_soon(lambda: server.chat.busy == 1)
    begun = engine.steps
    assert is_soon(lambda: engine.steps > begun + 5)
    connection.close()
    assert is_soon(lambda: server.chat.busy == 0, 1.0)
    time.sleep(0.05)
    steps = engine.steps
    time.sleep(0.05)
    assert engine.steps == steps
    assert answers(server)


def test_what_takes_too_long_is_given_up(server: Running, engine: ScriptedEngine) -> None:
    engine.seconds = 0.01
    asked = {**ASKED, "max_tokens": 2000}
    bodies = [json.dumps({**asked, "stream": stream}).encode() for stream in (False, True)]
    with ThreadPoolExecutor() as pool:
        whole, streamed = pool.map(lambda body: call(server, body=body), bodies)
    assert (whole.status, json.loads(whole.text)["error"]["code"]) == (504, "timeout")
    assert streamed.status == 200
    assert '"content": "7"' in streamed.text
    *_, error, done, _ = streamed.text.split("\n\n")
    assert json.loads(error.removeprefix("data: "))["error"]["code"] == "timeout"
    assert done == "data: [DONE]"
    engine.seconds = 0.0
    assert is_soon(lambda: server.chat.busy == 0)
    assert answers(server)


def test_a_client_that_does_not_read_blocks_nobody_and_is_left(server: Running) -> None:
    body = json.dumps({**ASKED, "max_tokens": 2000, "stream": True, "n": 2}).encode()
    with socket.socket() as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
        connection.connect(("127.0.0.1", server.port))
        connection.sendall(HEAD + f"Content-Length: {len(body)}\r\n\r\n".encode() + body)
        assert is_soon(lambda: server.chat.busy == 2)
        assert answers(server)
        assert is_soon(lambda: server.chat.busy == 0, 2 * LIMITS.seconds)
    assert answers(server)


@pytest.mark.parametrize("stream", [True, False])
def test_a_client_that_reads_nothing_does_not_keep_its_connection(
    run: Path, engine: ScriptedEngine, monkeypatch: pytest.MonkeyPatch, stream: bool
) -> None:
    lost, let_go = [], PatientProtocol.connection_lost
    monkeypatch.setattr(PatientProtocol, "connection_lost", lambda self, exc: (lost.append(self.client), let_go(self, exc))[1])
    monkeypatch.setattr(server_module, "SILENCE_SECONDS", 0.3)
    body = json.dumps({**ASKED, "max_tokens": 2048, "stream": True, "n": 8}).encode()
    asked = HEAD + f"Content-Length: {len(body)}\r\n\r\n".encode() + body
    asked = asked if stream else b"GET /v1/models HTTP/1.1\r\nHost: localhost\r\n\r\n" * 20_000
    with serving(run, limits=Limits(seconds=4.0), engine=engine) as server, socket.socket() as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
        connection.settimeout(0.3)
        connection.connect(("127.0.0.1", server.port))
        with contextlib.suppress(TimeoutError, ConnectionError):
            connection.sendall(asked)
        assert is_soon(lambda: connection.getsockname() in lost)
        assert answers(server)


def test_a_server_that_is_told_to_stop_answers_what_it_writes(
    run: Path, engine: ScriptedEngine, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(server_module, "FAREWELL_SECONDS", 0.2)
    engine.seconds = 0.01
    bodies = [json.dumps({**ASKED, "max_tokens": 2000, "stream": stream}).encode() for stream in (False, True)]
    with ThreadPoolExecutor() as pool:
        with serving(run, engine=engine) as server:
            replies = [pool.submit(call, server, body=body) for body in bodies]
            assert is_soon(lambda: server.chat.busy == 2)
            begun = time.monotonic()
        assert time.monotonic() - begun < 4
        whole, streamed = (reply.result() for reply in replies)
    assert (whole.status, json.loads(whole.text)["error"]["code"]) == (503, "shutting_down")
    *_, error, done, _ = streamed.text.split("\n\n")
    assert json.loads(error.removeprefix("data: "))["error"]["code"] == "shutting_down"
    assert done == "data: [DONE]"
    assert "Traceback" not in caplog.text


def test_a_server_that_can_not_work_any_more_says_so(run: Path, engine: ScriptedEngine) -> None:
    with serving(run, engine=engine) as server:
        assert call(server, method="GET", path="/health").status == 200
        server.chat.worker.close()
        assert call(server, method="GET", path="/health").status == 503
        assert json.loads(call(server).text)["error"]["code"] == "worker_failed"


def test_a_failing_engine_fails_its_batch_and_not_the_server(server: Running, engine: ScriptedEngine) -> None:
    engine.broken = True
    response = call(server)
    assert (response.status, json.loads(response.text)["error"]["type"]) == (500, "server_error")
    assert "fire" not in response.text
    engine.broken = False
    assert answers(server)


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (["nowhere"], "nowhere is not the folder of a run"),
        (["RUN", "--host", "0.0.0.0"], "--api-key-env NAME"),
        (["RUN", "--api-key-env", "NO_SUCH_VARIABLE"], "NO_SUCH_VARIABLE, which is not set"),
        (["RUN", "--drafter", "carol"], "no policy 'carol'"),
        (["RUN", "--max-concurrency", "0"], "--max-concurrency must be at least 1"),
        (["RUN", "--timeout", "nan"], "--timeout must be from"),
    ],
)
def test_mistakes_on_the_command_line(
    run: Path, args: list[str], says: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from algos.cli import run as agon

    monkeypatch.setenv("COLUMNS", "300")
    assert agon(["serve", *[str(run) if arg == "RUN" else arg for arg in args]]) == 2
    assert says in capsys.readouterr().err


def test_the_pair_can_be_turned_round_or_be_one_policy_twice(run: Path) -> None:
    trained = load_trained(run)
    alice, bob = trained.policies.values()
    assert served_models(trained)["pair"].speakers == (alice, bob)
    assert served_models(trained, drafter="bob", challenger="alice")["pair"].speakers == (bob, alice)
    assert served_models(trained, challenger="alice")["pair"].speakers == (alice, alice)
