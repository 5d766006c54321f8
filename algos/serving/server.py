"""Where the server listens, and whom it lets near: loopback, unless told otherwise."""

from __future__ import annotations

import asyncio
import ipaddress
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from algos.errors import ConfigError
from algos.serving.app import ChatServer

LOOPBACK_NAMES = ["localhost", "127.0.0.1", "::1", "[::1]"]
SILENCE_SECONDS = 30.0
"""A connection on which no whole request has come for so long is closed, and one whose client reads nothing is cut."""
FAREWELL_SECONDS = 3.0
"""For what is being written when the server is told to stop; the rest is answered with an error."""
_UNANSWERED = object()


@dataclass(frozen=True)
class Address:
    """Where to listen, and under which names."""

    host: str = "127.0.0.1"
    port: int = 8000
    """0 takes any free one."""
    allow_hosts: tuple[str, ...] = ()
    """More names by which clients may call the server (the Host header)."""
    insecure: bool = False
    """Serve other machines without a key."""

    def check(self, *, api_key: str | None) -> None:
        """Refuse to serve other machines without a key.

        Raises:
            ConfigError: that would happen, or a name is none.
        """
        if any("*" in name.removeprefix("*.") and name != "*" for name in self.allow_hosts):
            raise ConfigError(f"--allow-host takes names such as me.example and *.example, not {' '.join(self.allow_hosts)}")
        if not self.loopback and api_key is None and not self.insecure:
            raise ConfigError(
                f"{self.host} can be reached from other machines: name a variable that holds a key (--api-key-env NAME), "
                "or say --insecure"
            )

    @property
    def loopback(self) -> bool:
        """Whether only this machine can reach the server."""
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return self.host == "localhost"

    @property
    def host_names(self) -> list[str]:
        """The names in Host headers that are answered; all where a key is asked for and nobody knows the machine's names."""
        if self.any_address and not self.allow_hosts and not self.insecure:
            return ["*"]
        return [*LOOPBACK_NAMES, socket.gethostname() if self.any_address else self.host, *self.allow_hosts]

    @property
    def any_address(self) -> bool:
        """Whether this stands for every address of the machine, which may be called by any of them."""
        return self.host in ("0.0.0.0", "::")


def serve(chat: ChatServer, address: Address, *, on_start: Callable[[str], None]) -> None:
    """Serve until interrupted.

    Args:
        chat: what answers.
        address: where to listen.
        on_start: told the URL when the server listens.

    Raises:
        ConfigError: the address can't be had.
    """
    with listen(address) as place:
        on_start(url(place))
        make_server(chat, address).run(sockets=[place])


@contextmanager
def background(chat: ChatServer, address: Address | None = None) -> Iterator[str]:
    """Serve from a thread of this process while the block runs.

    Args:
        chat: what answers.
        address: where to listen; default: any free port of loopback.

    Yields:
        The URL.

    Raises:
        ConfigError: the address can't be had.
    """
    address = address or Address(port=0)
    with listen(address) as place:
        server = make_server(chat, address)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [place]}, name="agon-serve-http")
        thread.start()
        try:
            while not server.started and thread.is_alive():
                time.sleep(0.01)
            yield url(place)
        finally:
            server.should_exit = True
            thread.join()


def make_server(chat: ChatServer, address: Address) -> uvicorn.Server:
    """Return a server that can be run on a socket."""
    config = uvicorn.Config(
        chat.app(allowed_hosts=address.host_names, any_address=address.any_address),
        http=PatientProtocol,
        ws="none",
        lifespan="on",
        log_level="warning",
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_graceful_shutdown=5,
    )
    return PoliteServer(config, chat)


def listen(address: Address) -> socket.socket:
    """Return a socket that listens there.

    Raises:
        ConfigError: it can't be had.
    """
    family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
    try:
        return socket.create_server((address.host, address.port), family=family, backlog=1024)
    except (OSError, OverflowError) as error:
        raise ConfigError(f"can't listen on {address.host}, port {address.port}: {error}; choose another --port") from error


def url(place: socket.socket) -> str:
    """Return the URL of the API at a socket."""
    host, port = place.getsockname()[:2]
    return f"http://[{host}]:{port}/v1" if ":" in host else f"http://{host}:{port}/v1"


class PoliteServer(uvicorn.Server):
    """Ends what it writes before it goes: uvicorn itself would break it off, and say no more than that."""

    def __init__(self, config: uvicorn.Config, chat: ChatServer) -> None:
        """Run `chat`, as `config` says."""
        super().__init__(config)
        self._chat = chat

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Take no more requests, and answer those that there are."""
        farewell = asyncio.get_running_loop().call_later(FAREWELL_SECONDS, self._chat.worker.stop)
        await super().shutdown(sockets)
        farewell.cancel()


class PatientProtocol(H11Protocol):
    """Patient, but not for ever: uvicorn itself waits without end for requests to come, and for responses to be read."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to watch a connection."""
        super().connection_made(transport)
        self._seen: Any = None
        self._unread = 0
        self._look_again = self.loop.call_later(SILENCE_SECONDS, self._look)

    def connection_lost(self, exc: Exception | None) -> None:
        """Watch no more."""
        self._look_again.cancel()
        super().connection_lost(exc)

    def _look(self) -> None:
        unread = self.transport.get_write_buffer_size()
        if unread and unread == self._unread:  # closing would wait until it is read
            self.transport.abort()
            return
        self._unread = unread
        answered = self.cycle is None or self.cycle.response_complete
        if answered and self.cycle is self._seen:
            self.transport.close()
        self._seen = self.cycle if answered else _UNANSWERED
        self._look_again = self.loop.call_later(SILENCE_SECONDS, self._look)
