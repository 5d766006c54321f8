"""What is asked of a server with narrow limits."""

import http.client
import json
import time
from collections.abc import Callable

from small_run import Running

from algos.serving.app import Limits

QUESTION = [{"role": "user", "content": "2 + 3"}]
ASKED = {"model": "alice", "messages": QUESTION, "max_tokens": 4}
HEAD = b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
LIMITS = Limits(concurrency=4, tokens=2000, body_bytes=4000, body_seconds=0.5, seconds=1.5)


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
