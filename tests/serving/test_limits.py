"""What the server refuses, and what can't stop it: other origins, wrong keys, large and slow bodies, silence, gone clients."""

import asyncio
import contextlib
import http.client
import json
import socket
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("starlette", reason='the server needs: pip install "agon-env[serve]"')
pytest.importorskip("uvicorn", reason='the server needs: pip install "agon-env[serve]"')
openai = pytest.importorskip("openai", reason="the official client: pip install openai")

from scripted_engine import ScriptedEngine  # noqa: E402
from small_run import Running, make_run, serving  # noqa: E402

from agents import embedded  # noqa: E402
from algos.errors import ConfigError  # noqa: E402
from algos.serving import server as server_module  # noqa: E402
from algos.serving.app import ChatServer, Limits  # noqa: E402
from algos.serving.errors import APIError  # noqa: E402
from algos.serving.models import served_models  # noqa: E402
from algos.serving.replies import _event  # noqa: E402
from algos.serving.schema import ChatRequest, read_request  # noqa: E402
from algos.serving.server import Address, PatientProtocol, background, listen  # noqa: E402
from algos.trained import load_trained  # noqa: E402

QUESTION = [{"role": "user", "content": "2 + 3"}]
ASKED = {"model": "alice", "messages": QUESTION, "max_tokens": 4}
KEY = "a key of some length"
HEAD = b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
LIMITS = Limits(concurrency=4, tokens=2000, body_bytes=4000, body_seconds=0.5, seconds=1.5)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_run(tmp_path_factory.mktemp("runs"))


@pytest.fixture(scope="module")
def engine() -> ScriptedEngine:
    from transformers import AutoTokenizer

    (token,) = AutoTokenizer.from_pretrained(embedded.path())("7", add_special_tokens=False)["input_ids"]
    return ScriptedEngine(token=token)


@pytest.fixture(scope="module")
def server(run: Path, engine: ScriptedEngine) -> Iterator[Running]:
    with serving(run, limits=LIMITS, engine=engine) as running:
        yield running


@pytest.fixture(autouse=True)
def quick(engine: ScriptedEngine) -> Iterator[None]:
    engine.seconds, engine.broken = 0.0, False
    yield
    engine.seconds, engine.broken = 0.0, False


def call(
    server: Running, *, body: bytes | None = None, method: str = "POST", path: str = "/v1/chat/completions", **headers: str
):
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=20)
    given = {"Content-Type": "application/json"} | {name.replace("_", "-"): value for name, value in headers.items()}
    connection.request(
        method, path, body=json.dumps(ASKED).encode() if body is None and method == "POST" else body, headers=given
    )
    response = connection.getresponse()
    response.text = response.read().decode()
    connection.close()
    return response


def is_soon(condition: Callable[[], bool], seconds: float = 10.0) -> bool:
    end = time.monotonic() + seconds
    while not condition() and time.monotonic() < end:
        time.sleep(0.01)
    return condition()


def answers(server: Running) -> bool:
    response = call(server)
    return response.status == 200 and json.loads(response.text)["choices"][0]["message"]["content"] == "7777"


# --- who may ask ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "origin", ["https://evil.example", "http://localhost:1", "null", "http://127.0.0.1", "app://127.0.0.1:{port}", ""]
)
def test_pages_of_other_origins_are_refused_and_no_response_lets_them_read(server: Running, origin: str) -> None:
    refused = call(server, Origin=origin.format(port=server.port))
    assert (refused.status, json.loads(refused.text)["error"]["type"]) == (403, "permission_error")
    preflight = call(server, method="OPTIONS", Origin=origin, Access_Control_Request_Method="POST")
    assert preflight.status >= 400
    for response in (refused, preflight, call(server)):
        assert not [name for name, _ in response.getheaders() if name.lower().startswith("access-control")]


def test_the_servers_own_origin_may_ask(server: Running) -> None:
    assert call(server, Origin=f"http://127.0.0.1:{server.port}").status == 200
    assert call(server, Origin=f"https://127.0.0.1:{server.port}").status == 200  # behind a proxy with TLS
    assert call(server, Sec_Fetch_Site="same-origin").status == 200


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
def test_what_a_page_elsewhere_embeds_is_refused_though_no_origin_is_sent(server: Running, site: str) -> None:
    assert call(server, method="GET", path="/v1/models", Sec_Fetch_Site=site).status == 403


@pytest.mark.parametrize("host", ["evil.example", "evil.example:80", "127.0.0.1.evil.example", "localhost@evil.example", ""])
def test_another_host_name_is_refused(server: Running, host: str) -> None:
    assert call(server, Host=host).status == 400
    assert call(server, method="GET", path="/v1/models", Host=host).status == 400


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "[::1]:8000", "LOCALHOST:99"])
def test_names_of_this_machine_are_served(server: Running, host: str) -> None:
    assert call(server, Host=host).status == 200


def test_with_a_key_nobody_else_is_served(run: Path, engine: ScriptedEngine) -> None:
    with serving(run, api_key=KEY, engine=engine) as server:
        wrong = ("Bearer wrong", KEY, f"Basic {KEY}", f"Bearer {KEY}x", "Bearer ", "Bearer ü")
        for given in ({}, *({"Authorization": said} for said in wrong)):
            for method, path in (("POST", "/v1/chat/completions"), ("GET", "/v1/models"), ("GET", "/v1/models/pair")):
                refused = call(server, method=method, path=path, **given)
                assert (refused.status, json.loads(refused.text)["error"]["code"]) == (401, "invalid_api_key")
                assert KEY not in refused.text
        assert call(server, Authorization=f"Bearer {KEY}").status == 200
        with (
            openai.OpenAI(base_url=server.url, api_key="wrong", max_retries=0) as client,
            pytest.raises(openai.AuthenticationError),
        ):
            client.models.list()


@pytest.mark.parametrize("key", ["", " ", "\n"])
def test_an_empty_key_is_none(run: Path, key: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(ConfigError, match="empty"):
        ChatServer({}, api_key=key)
    monkeypatch.setenv("AGON_TEST_KEY", key)
    from algos.cli import run as agon

    assert agon(["serve", str(run), "--api-key-env", "AGON_TEST_KEY"]) == 2
    assert "not set" in capsys.readouterr().err


def test_a_key_may_have_any_letters_and_a_line_feed_at_its_end(run: Path, engine: ScriptedEngine) -> None:
    with serving(run, api_key="schlüssel\n", engine=engine) as server:
        assert call(server, Authorization="Bearer schlüssel".encode().decode("latin-1")).status == 200
        assert call(server, Authorization="Bearer schl").status == 401


def test_an_address_of_every_network_answers_to_numbers_and_to_its_own_names(run: Path, engine: ScriptedEngine) -> None:
    """Without a key a page that gives this machine a name of its own must not be served."""
    chat = ChatServer(served_models(load_trained(run, engine=engine)))
    with background(chat, Address("0.0.0.0", 0, insecure=True)) as url:
        server = Running(url, int(url.split(":")[2].split("/")[0]), chat)
        own = [call(server, Host=host).status for host in ("192.168.1.5", "10.0.0.1:80", "[fe80::1]:8000", "localhost")]
        others = [call(server, Host=host).status for host in ("evil.example", "1.2.3.4.evil.example", "1.2.3.4:x", "")]
    assert (set(own), set(others)) == ({200}, {400})


def test_other_machines_are_served_only_with_a_key_or_knowingly() -> None:
    for host in ("0.0.0.0", "::", "192.168.1.5", "example.org"):
        with pytest.raises(ConfigError, match="--api-key-env NAME"):
            Address(host).check(api_key=None)
        Address(host).check(api_key=KEY)
        Address(host, insecure=True).check(api_key=None)
    for host in ("127.0.0.1", "127.8.8.8", "localhost", "::1"):
        Address(host).check(api_key=None)
    assert Address("127.0.0.1").host_names == ["localhost", "127.0.0.1", "::1", "[::1]", "127.0.0.1"]
    assert Address("0.0.0.0").host_names == ["*"]
    assert "*" not in Address("0.0.0.0", allow_hosts=("me.example",)).host_names
    assert "*" not in Address("0.0.0.0", insecure=True).host_names
    with pytest.raises(ConfigError, match="--allow-host takes names"):
        Address(allow_hosts=("ev*l.example",)).check(api_key=None)
    Address(allow_hosts=("*.me.example", "*")).check(api_key=None)


def test_a_port_that_is_taken_is_a_sentence() -> None:
    with listen(Address(port=0)) as place, pytest.raises(ConfigError, match="choose another --port"):
        listen(Address(port=place.getsockname()[1]))
    with pytest.raises(ConfigError, match="can't listen"):
        listen(Address(port=99999))


# --- what may be asked ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"", 400),
        (b"no json", 400),
        (b"[]", 400),
        (b"[" * 3000, 400),
        (b'{"model": "alice", "messages": ' + b"[" * 1000 + b"]" * 1000 + b"}", 400),
        (b'{"model": "alice", "messages": [{"role": "user", "content": "\\ud800"}]}', 400),
        (b'{"model": "alice", "messages": [{"role": "user", "content": "\xff"}]}', 400),
        (b'{"model": "alice", "messages": [{"role": "tool", "content": "x"}]}', 400),
        (b'{"model": "alice", "messages": [{"role": "user", "content": null}]}', 400),
        (b'{"model": "alice", "messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {}}]}]}', 400),
        (b'{"model": "alice", "messages": [{"role": "user", "content": "x"}], "temperature": NaN}', 400),
        (b'{"model": "alice", "messages": [{"role": "user", "content": "x"}], "max_tokens": 1e400}', 400),
        (b'{"model": "alice", "messages": [{"role": "user", "content": "x"}], "max_tokens": 0}', 400),
        (b'{"model": "alice", "messages": [{"role": "user", "content": "x"}], "n": -1}', 400),
        (b'{"model": "alice", "messages": [{"role": "user", "content": "x"}], "n": true}', 400),
        (b'{"model": "alice", "messages": [{"role": "user", "content": "x"}], "max_tokens": "2"}', 400),
        (b'{"model": "alice", "messages": [{"role": "user", "content": "x"}], "stream": "yes"}', 400),
        (b'{"model": "alice", "messages": [{"role": "user", "content": "x"}], "temperature": false}', 400),
        (b'{"model": "alice", "messages": [{"role": "user", "content": "x"}], "seed": ' + b"9" * 3000 + b"}", 200),
        (b'{"model": "alice", "messages": [{"role": "user", "content": "x"}], "temperature": 1, "max_tokens": 1}', 200),
        (b'{"model": "../../etc", "messages": [{"role": "user", "content": "x"}]}', 404),
        (b'{"model": "alice", "messages": [{"role": "user", "content": "' + b"x" * 4000 + b'"}]}', 413),
    ],
)  # fmt: skip
def test_a_bad_body_is_refused_in_openais_format(server: Running, body: bytes, status: int) -> None:
    response = call(server, body=body)
    assert response.status == status
    assert status == 200 or set(json.loads(response.text)["error"]) == {"message", "type", "param", "code"}
    assert answers(server)


def test_of_many_faults_the_first_is_told_and_not_the_rest_looked_for() -> None:
    """A megabyte of faults took seconds to list, and a server that lists answers nobody."""
    for asked in (
        {"messages": [1] * 300_000},
        {"messages": [{"role": "user", "content": [{}] * 250_000}]},
        {"stop": [1] * 300_000},
    ):
        body = json.dumps({**ASKED, **asked}).encode()
        begun = time.process_time()
        with pytest.raises(APIError) as refused:
            read_request(body, ChatRequest)
        assert refused.value.status == 400
        assert time.process_time() - begun < 0.5


def test_a_refusal_does_not_repeat_a_name_of_any_length(server: Running) -> None:
    assert len(call(server, body=json.dumps({**ASKED, "x" * 3500: 1}).encode()).text) < 500


def test_messages_without_a_text_are_counted_too(run: Path, engine: ScriptedEngine) -> None:
    """A template marks every message: tens of thousands of empty ones would hold up everybody while they are read."""
    with serving(run, engine=engine) as server:
        policy = server.chat.models["alice"].speakers[0]
        read, encode = [], policy.chat.encode
        policy.chat.encode = lambda messages: read.append(len(messages)) or encode(messages)
        response = call(server, body=json.dumps({**ASKED, "messages": [{"role": "user", "content": ""}] * 10_000}).encode())
    assert (response.status, json.loads(response.text)["error"]["code"]) == (400, "context_length_exceeded")
    assert read == []


def test_a_length_that_is_said_in_two_ways_is_refused_and_the_connection_closed(server: Running) -> None:
    """A proxy that believes the other length would take what follows for another client's request, or a response for it."""
    for path in (b"/v1/chat/completions", b"/health", b"/nowhere"):
        with socket.create_connection(("127.0.0.1", server.port), timeout=10) as connection:
            smuggled = b"GET /v1/models HTTP/1.1\r\nHost: localhost\r\n\r\n"
            head = HEAD.replace(b"/v1/chat/completions", path)
            connection.sendall(head + b"Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + smuggled)
            said = b""
            while part := connection.recv(1000):
                said += part
        assert said.startswith(b"HTTP/1.1 400")
        assert said.count(b"HTTP/1.1 ") == 1


def test_a_body_without_an_end_is_cut_off_at_the_limit(server: Running) -> None:
    with socket.create_connection(("127.0.0.1", server.port), timeout=10) as connection:
        connection.sendall(HEAD + b"Transfer-Encoding: chunked\r\n\r\n")
        said = b""
        for _ in range(LIMITS.body_bytes // 0x200 + 1):
            connection.sendall(b"200\r\n" + b"x" * 0x200 + b"\r\n")
        while part := connection.recv(1000):
            said += part
    assert said.startswith(b"HTTP/1.1 413")
    assert answers(server)


def test_a_slow_body_is_given_up(server: Running) -> None:
    with socket.create_connection(("127.0.0.1", server.port), timeout=10) as connection:
        connection.sendall(HEAD + b'Content-Length: 99\r\n\r\n{"model"')
        assert answers(server)  # meanwhile
        assert connection.recv(1000).startswith(b"HTTP/1.1 408")


def test_a_silent_connection_is_closed(server: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_module, "SILENCE_SECONDS", 0.2)
    for said in (b"", b"POST /v1/chat/comp", b"GET /health HTTP/1.1\r\nHost: localhost\r\nX-Slow: "):
        with socket.create_connection(("127.0.0.1", server.port), timeout=10) as connection:
            connection.sendall(said)
            assert connection.recv(1000) == b""


def test_a_connection_is_not_silent_while_it_waits_for_its_answer(
    server: Running, engine: ScriptedEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server_module, "SILENCE_SECONDS", 0.1)
    engine.seconds = 0.2
    assert answers(server)


def test_a_body_that_is_not_json_by_its_own_account_is_refused(server: Running) -> None:
    """Else a page of another origin could send one without asking first."""
    assert call(server, Content_Type="text/plain").status == 415
    assert call(server, Content_Type="application/json; charset=utf-8").status == 200


def test_unknown_routes_and_methods(server: Running) -> None:
    assert call(server, path="/v1/embeddings").status == 404
    assert call(server, method="GET").status == 405
    assert call(server, method="GET", path="/v1/models/nobody").status == 404
    for path in ("/v1/embeddings", "/docs", "/openapi.json", "/"):
        assert json.loads(call(server, method="GET", path=path).text)["error"]["type"] == "invalid_request_error"
    assert call(server, method="GET", path="/health").status == 200


def test_draft_and_answer_have_no_more_tokens_together_than_were_asked_for(server: Running) -> None:
    asked = {"model": "pair", "messages": QUESTION, "max_completion_tokens": 7}
    used = json.loads(call(server, body=json.dumps(asked).encode()).text)["usage"]
    assert (used["completion_tokens_details"]["reasoning_tokens"], used["completion_tokens"]) == (3, 7)


def test_no_text_of_a_model_ends_its_event() -> None:
    """Some clients end lines where Unicode does."""
    said = "a\n\ndata: [DONE]\n\n\r\revent: x\u2028\u2029\x85\x0b\x0c\x1c\x00"
    event = _event({"content": said})
    assert (event[:6], event[-2:], len(event.splitlines())) == ("data: ", "\n\n", 2)
    assert event.isascii()
    assert json.loads(event[6:]) == {"content": said}


# --- many, slow and gone clients --------------------------------------------------------------------


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
