"""A server's address, taken apart."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import urlsplit

from driftq.errors import InvalidArgument


@dataclass(frozen=True, slots=True)
class Address:
    """Where a server listens, and what stands before `/v1` there."""

    url: str
    host: str
    port: int
    tls: bool
    prefix: str

    @property
    def host_header(self) -> str:
        name = f"[{self.host}]" if ":" in self.host else self.host
        return name if self.port == (443 if self.tls else 80) else f"{name}:{self.port}"


def read_address(url: str) -> Address:
    """The parts of an address like `http://127.0.0.1:8080`; raises InvalidArgument."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise InvalidArgument("url", f"{url!r} is not an address") from None
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
        raise InvalidArgument("url", f"{url!r} is not an address like http://127.0.0.1:8080")
    tls = parts.scheme == "https"
    return Address(
        url=url.rstrip("/"),
        host=parts.hostname,
        port=port or (443 if tls else 80),
        tls=tls,
        prefix=parts.path.rstrip("/"),
    )
