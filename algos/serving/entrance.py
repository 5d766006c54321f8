"""Which requests get in at all, whatever they ask for."""

from __future__ import annotations

import re
from collections.abc import Sequence

from starlette.datastructures import Headers
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.types import ASGIApp, Receive, Scope, Send

from algos.serving.errors import APIError

CLOSE = {"Connection": "close"}
"""For responses before a body was read: what comes after it on the connection would be taken for the next request."""
_NUMBER = re.compile(r"([\d.]+|\[[\da-f:.]+\])(:\d+)?", re.ASCII | re.IGNORECASE)
"""A Host header that is an IP address; no name is written like that."""


class Entrance(TrustedHostMiddleware):
    """Refuses requests that call the server by a name that is not its own, or that say their length in two ways.

    A web page can give any name of its own to this machine's address, and would then be of the same origin. It can't
    do that with a number. Of two lengths a proxy in between may believe the other one than we do.
    """

    def __init__(self, app: ASGIApp, *, allowed_hosts: Sequence[str], any_address: bool) -> None:
        """Guard `app`.

        Args:
            app: what answers.
            allowed_hosts: names, "*.name", or "*" for all.
            any_address: whether the server may be called by any number as well.
        """
        super().__init__(app, allowed_hosts=allowed_hosts, www_redirect=False)
        self._any_address = any_address

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, or refuse it."""
        headers = Headers(scope=scope) if scope["type"] == "http" else Headers()
        if "content-length" in headers and "transfer-encoding" in headers:
            refused = APIError(400, "send Content-Length or Transfer-Encoding, not both", headers=CLOSE)
            await refused.response()(scope, receive, send)
        elif self._any_address and _NUMBER.fullmatch(headers.get("host", "")):
            await self.app(scope, receive, send)
        else:
            await super().__call__(scope, receive, send)
