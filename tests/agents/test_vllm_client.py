"""What is said to a vLLM server, to one that knows as much of it as that takes."""

import json
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from tiny_models import tiny_base

from agents.engines.served import ServedAdapter, ServedRow
from agents.engines.vllm_server import VLLMServer
from agents.errors import ServerFailed

HELD: dict[str, str] = {}
ALICE = ServedAdapter("alice@1", 1, Path("alice@1"))


class Handler(BaseHTTPRequestHandler):
    """Holds adapters by name, refuses a name that it holds, and says the token 7."""

    def do_GET(self) -> None:
        self.answer({"data": [{"id": "model", "parent": None}]})

    def do_POST(self) -> None:
        asked: dict[str, Any] = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        name = asked.get("lora_name", "")
        if self.path == "/v1/load_lora_adapter" and name not in HELD:
            HELD[name] = asked["lora_path"]
            self.answer("loaded")
        elif self.path == "/v1/unload_lora_adapter" and HELD.pop(name, None):
            self.answer("unloaded")
        elif self.path == "/reset_prefix_cache":
            self.answer("Not Found", status=404)
        elif self.path == "/v1/completions" and asked["model"] in HELD:
            choice = {"token_ids": [7], "logprobs": {"token_logprobs": [-0.5]}, "finish_reason": "length"}
            self.answer({"model": asked["model"], "choices": [choice]})
        else:
            self.answer("refused", status=400)

    def answer(self, body: Any, *, status: int = 200) -> None:
        self.send_response(status)
        self.end_headers()
        self.wfile.write(json.dumps(body).encode())

    def log_message(self, format: str, *args: Any) -> None:
        pass


@pytest.fixture
def url() -> Iterator[str]:
    HELD.clear()
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def test_adapters_of_another_run_on_the_same_server_are_not_in_the_way(url: str) -> None:
    before, after = (VLLMServer(tiny_base(), place) for place in (url, f"{url}/v1/"))
    before.load(ALICE)
    after.load(ALICE)
    assert len(HELD) == 2
    (said,) = after.generate([ServedRow((1, 2), 0, 1, ALICE)], temperature=1.0, eos_ids=frozenset({0}))
    assert (said.token_ids, said.logprobs, said.finish_reason) == ((7,), (-0.5,), "length")
    before.unload(ALICE)
    assert len(HELD) == 1
    after.close()
    assert not HELD


def test_what_a_server_refuses_is_said(url: str) -> None:
    server = VLLMServer(tiny_base(), url)
    with pytest.raises(ServerFailed, match=r"/v1/unload_lora_adapter answered 400: .refused"):
        server.unload(ALICE)
    with pytest.raises(
        ServerFailed, match=r"/reset_prefix_cache answered 404: .Not Found.; start it with .*VLLM_SERVER_DEV_MODE=1"
    ):
        server.reset_cache()
