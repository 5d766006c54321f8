"""What may be asked of the server: bodies that are wrong, large, slow or without end, routes, lengths."""

import json
import socket
import time
from pathlib import Path

import pytest

pytest.importorskip("starlette", reason='the server needs: pip install "agon-env[serve]"')
pytest.importorskip("uvicorn", reason='the server needs: pip install "agon-env[serve]"')

from limited_server import ASKED, HEAD, LIMITS, QUESTION, answers, call
from scripted_engine import ScriptedEngine
from small_run import Running, serving

from algos.serving import server as server_module
from algos.serving.errors import APIError
from algos.serving.replies import _event
from algos.serving.schema import ChatRequest, read_request

pytestmark = pytest.mark.usefixtures("quick")


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
        assert time.process_time() - begun < 2  # listing all of them takes several times as long


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
