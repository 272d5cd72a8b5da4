"""Where the service is, and who asks: the settings that both transports share."""

from __future__ import annotations

import logging
import os
import ssl
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from ._steps import Request
from .errors import ServerDown, WrongToken, WrongURL

log = logging.getLogger("countersign")


@dataclass(frozen=True)
class Address:
    host: str
    port: int
    prefix: str
    tls: ssl.SSLContext | None
    token: str = field(repr=False)

    @classmethod
    def read(cls, server: str | None, token: str | None) -> Address:
        """Takes what is not given from COUNTERSIGN_SERVER and COUNTERSIGN_TOKEN."""
        server = server or os.environ.get("COUNTERSIGN_SERVER")
        token = token or os.environ.get("COUNTERSIGN_TOKEN")
        if not server:
            raise WrongURL("no server is given")
        if not token:
            raise WrongToken("no token is given")
        if not token.isascii() or not token.isprintable() or " " in token:
            raise WrongToken("the token contains characters that no token has")
        try:
            parts = urlsplit(server)
            port = parts.port
        except ValueError:
            raise WrongURL("the server's address is not a URL") from None
        if (
            parts.scheme not in ("http", "https")
            or not parts.hostname
            or parts.query
            or parts.fragment
            or parts.username
            or not server.isascii()
            or " " in server
        ):
            raise WrongURL("the server's address is not of the form http://HOST:PORT or https://HOST")
        tls = ssl.create_default_context() if parts.scheme == "https" else None
        return cls(parts.hostname, port or (443 if tls else 80), parts.path.rstrip("/"), tls, token)

    @property
    def name(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"

    def headers(self, request: Request) -> dict[str, str]:
        headers = {"Authorization": f"Bearer {self.token}", "Accept": "application/json"}
        if request.body is not None:
            headers["Content-Type"] = "application/json"
        if request.key is not None:
            headers["Idempotency-Key"] = request.key
        return headers

    def down(self, error: BaseException) -> ServerDown | WrongURL:
        """Returns the error for a request that got no answer."""
        if isinstance(error, ssl.SSLError):
            return WrongURL(f"no TLS connection to {self.name}: {error}", hint="check the address and the certificate")
        if isinstance(error, OSError) and "Name or service not known" in str(error):
            return WrongURL(f"there is no host `{self.host}`")
        if isinstance(error, TimeoutError):
            return ServerDown(f"{self.name} did not answer in time")
        return ServerDown(f"{self.name} cannot be reached: {error or type(error).__name__}")


def retry_delay(attempt: int, retry_after: float | None) -> float:
    """Returns how many seconds to wait before the next attempt."""
    if retry_after is not None:
        return min(retry_after, 10.0)
    return float(min(2.0, 0.1 * 2.0**attempt))


def read_retry_after(value: str | None) -> float | None:
    try:
        return None if value is None else max(0.0, float(value))
    except ValueError:
        return None
