"""A small server that answers like OpenAI's chat completions, streamed, by a function of the messages."""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

Say = Callable[[list[dict[str, str]]], str | None]
"""Messages → what the model says; None for a failure of the server."""


@contextlib.contextmanager
def serve(say: Say, *, finish_reason: str = "stop") -> Iterator[tuple[str, list[dict[str, object]]]]:
    """Serve while the block runs; yield the base URL and the list of the requests' bodies."""
    asked: list[dict[str, object]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            asked.append(body)
            text = say(body["messages"])
            if text is None:
                self.send_error(400)
                return
            self.send_response(200)
            self.send_header("Content-Type", "text/event-stream")
            self.end_headers()
            for delta, finish in (({"role": "assistant", "content": text}, None), ({}, finish_reason)):
                chunk = {
                    "id": "stub",
                    "object": "chat.completion.chunk",
                    "created": 0,
                    "model": body["model"],
                    "choices": [{"index": 0, "delta": delta, "finish_reason": finish}],
                }
                if finish:
                    chunk["usage"] = {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5}
                self.wfile.write(f"data: {json.dumps(chunk)}\n\n".encode())
            self.wfile.write(b"data: [DONE]\n\n")

        def log_message(self, *_: object) -> None:
            """Keep quiet."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/v1", asked
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
