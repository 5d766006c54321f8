"""`openai:MODEL@URL` plays against `agon serve`."""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

pytest.importorskip("starlette", reason='the server needs: pip install "agon-env[serve]"')
pytest.importorskip("uvicorn", reason='the server needs: pip install "agon-env[serve]"')
pytest.importorskip("openai", reason='the player needs: pip install "agon-env[openai]"')

from small_run import Running, make_run, serving

import agents
import agon_env
from agents.errors import Error, ServerFailed
from algos.training.trained import load_trained


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_run(tmp_path_factory.mktemp("runs"))


@pytest.fixture(scope="module")
def server(run: Path) -> Iterator[Running]:
    with serving(run) as running:
        yield running


def test_served_policies_play_a_duel_as_the_policies_themselves_do(server: Running, run: Path) -> None:
    local = load_trained(run).policies
    for policy in local.values():
        policy.params = agents.SamplingParams(max_tokens=24, temperature=0.0)
    served = {name: agents.make(f"openai:{name}@{server.url}", temperature=0.0) for name in local}
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


class Elsewhere(BaseHTTPRequestHandler):
    """A server that answers with whatever it is told to, and remembers the keys that it was shown."""

    body, status, keys = b"", 200, set()

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.keys.add(self.headers["Authorization"])
        self.send_response(self.status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(self.body)))
        self.end_headers()
        self.wfile.write(self.body)

    def log_message(self, *args: object) -> None:
        """Say nothing."""


@pytest.fixture
def elsewhere() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Elsewhere) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def completion(**changed: object) -> bytes:
    choice = {"index": 0, "message": {"role": "assistant", "content": "said"}, "finish_reason": "stop"}
    usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
    return json.dumps({"id": "x", "choices": [choice | changed.pop("choice", {})], "usage": usage} | changed).encode()


@pytest.mark.parametrize(
    "body",
    [
        b"", b"null", b"[]", b'"text"', b"<html>", b"\xff", b"[" * 100_000, b"{}",
        completion(choices=[]), completion(choices=None), completion(choices=[None]), completion(choices="x"),
        completion(choice={"message": None}), completion(choice={"message": "said"}),
        completion(choice={"message": {"content": ["said"]}}), completion(choice={"message": {"content": 7}}),
    ],
)  # fmt: skip
def test_what_is_no_completion_is_a_failure_of_the_server(elsewhere: str, body: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Elsewhere, "body", body)
    obs, _ = agon_env.make("ArithmeticSolo-v0").reset(seed=0)
    with pytest.raises(ServerFailed, match="gave no answer"):
        agents.make(f"openai:m@{elsewhere}")(obs)


@pytest.mark.parametrize("used", [None, [], {}, {"completion_tokens": "many"}, {"completion_tokens": -5}])
def test_what_a_server_says_that_it_used_is_believed_if_it_can_be(
    elsewhere: str, used: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Elsewhere, "body", completion(usage=used))
    obs, _ = agon_env.make("ArithmeticSolo-v0").reset(seed=0)
    player = agents.make(f"openai:m@{elsewhere}")
    assert player(obs).text == "said"
    assert player.tokens_spent == 0


def test_a_failure_repeats_no_megabytes_and_no_password(elsewhere: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Elsewhere, "body", json.dumps({"error": {"message": "no" * 2**20}}).encode())
    monkeypatch.setattr(Elsewhere, "status", 400)
    obs, _ = agon_env.make("ArithmeticSolo-v0").reset(seed=0)
    with pytest.raises(ServerFailed) as failed:
        agents.make(f"openai:m@{elsewhere.replace('//', '//user:hunter2@')}")(obs)
    assert len(str(failed.value)) < 1000
    assert "hunter2" not in str(failed.value)
    with pytest.raises(Error, match="no URL"):
        agents.make("openai:m@http://[::1/v1")


def test_the_key_goes_where_it_belongs_and_nowhere_else(elsewhere: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever writes a config names servers in it."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-mine")
    monkeypatch.setenv("OTHER_KEY", "sk-other")

    def key(url: str, **options: str) -> str:
        return agents.make(f"openai:m@{url}", **options)._client.api_key

    for url in ("https://api.openai.com/v1", "http://127.0.0.1:8000/v1", "http://localhost/v1", "http://[::1]:80/v1"):
        assert key(url) == "sk-mine"
    for url in ("https://evil.example/v1", "http://api.openai.com/v1", "https://api.openai.com.evil.example/v1"):
        assert key(url) == "none"
    for url in ("https://api.openai.com@evil.example/v1", "https://api.openai.com:444/v1", "https://localhost.evil.example"):
        assert key(url) == "none"
    assert key("https://mine.example/v1", api_key_env="OTHER_KEY") == "sk-other"
    monkeypatch.setenv("OPENAI_BASE_URL", "https://mine.example/v1")
    assert key("https://mine.example/v1/other") == "sk-mine"
    assert key("https://evil.example/v1") == "none"
    monkeypatch.setattr(Elsewhere, "body", b"{}")
    monkeypatch.setattr(Elsewhere, "status", 401)
    monkeypatch.setattr("agents.served._is_loopback", lambda host: False)
    obs, _ = agon_env.make("ArithmeticSolo-v0").reset(seed=0)
    with pytest.raises(ServerFailed, match="OPENAI_BASE_URL names"):
        agents.make(f"openai:m@{elsewhere}")(obs)
    assert "Bearer sk-mine" not in Elsewhere.keys


@pytest.mark.parametrize(("reason", "cut"), [("length", True), ("stop", False), (None, False)])
def test_a_text_that_the_server_has_cut_is_known_as_such(
    elsewhere: str, reason: str | None, cut: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Elsewhere, "body", completion(choice={"finish_reason": reason}))
    obs, _ = agon_env.make("ArithmeticSolo-v0").reset(seed=0)
    assert agents.make(f"openai:m@{elsewhere}")(obs).truncated is cut
