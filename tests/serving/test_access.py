"""Who may ask the server: other origins, other names of the machine, keys, addresses."""

import json
from pathlib import Path

import pytest

pytest.importorskip("starlette", reason='the server needs: pip install "agon-env[serve]"')
pytest.importorskip("uvicorn", reason='the server needs: pip install "agon-env[serve]"')
openai = pytest.importorskip("openai", reason="the official client: pip install openai")

from limited_server import call  # noqa: E402
from scripted_engine import ScriptedEngine  # noqa: E402
from small_run import Running, serving  # noqa: E402

from algos.errors import ConfigError  # noqa: E402
from algos.serving.app import ChatServer  # noqa: E402
from algos.serving.models import served_models  # noqa: E402
from algos.serving.server import Address, background, listen  # noqa: E402
from algos.training.trained import load_trained  # noqa: E402

pytestmark = pytest.mark.usefixtures("quick")

KEY = "a key of some length"


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
