"""What is refused, as OpenAI says it: `{"error": {"message", "type", "param", "code"}}`."""

from __future__ import annotations

from collections.abc import Mapping

from starlette.responses import JSONResponse


class APIError(Exception):
    """A request that is not served, with its HTTP status."""

    def __init__(
        self,
        status: int,
        message: str,
        *,
        code: str | None = None,
        param: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        """Refuse a request.

        Args:
            status: of HTTP.
            message: what is wrong, and what to do.
            code: a word for programs.
            param: the field that is to blame.
            headers: of the response.
        """
        super().__init__(message)
        self.status, self.message, self.code, self.param, self.headers = status, message, code, param, headers

    def body(self) -> dict[str, dict[str, str | None]]:
        """Return the JSON that says so."""
        kind = _TYPES.get(self.status, "invalid_request_error" if self.status < 500 else "server_error")
        return {"error": {"message": self.message, "type": kind, "param": self.param, "code": self.code}}

    def response(self) -> JSONResponse:
        """Return the response that says so."""
        return JSONResponse(self.body(), self.status, headers=self.headers)


_TYPES = {401: "authentication_error", 403: "permission_error", 429: "rate_limit_error", 504: "timeout_error"}
