"""Addresses of TerminusDB databases: `terminusdb+http://user:password@host:6363/ORG/DB`."""

from __future__ import annotations

import base64
from dataclasses import dataclass, field
from typing import Self
from urllib.parse import quote, unquote, urlsplit

from driftq.errors import InvalidArgument

EXAMPLE = "terminusdb+http://user:password@host:6363/ORG/DB"
_SCHEMES = {"terminusdb+http": "http", "terminusdb+https": "https"}
_DEFAULT_PORT = 6363


@dataclass(frozen=True, slots=True, kw_only=True)
class TerminusAddress:
    """A database, and who writes to it."""

    server: str
    """As an `Endpoint` takes it, without credentials."""
    organization: str
    database: str
    user: str | None
    password: str = field(repr=False)

    @classmethod
    def of(cls, url: str) -> Self:
        """Raises InvalidArgument, whose text has nothing of the address: it may contain a password."""
        try:
            parts = urlsplit(url)
            port = parts.port or _DEFAULT_PORT
        except ValueError:
            raise _unusable() from None
        segments = [unquote(segment) for segment in parts.path.strip("/").split("/")]
        if parts.scheme not in _SCHEMES or not parts.hostname or parts.query or parts.fragment:
            raise _unusable()
        if len(segments) != 2 or not all(segments):
            raise _unusable()
        host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
        return cls(
            server=f"{_SCHEMES[parts.scheme]}://{host}:{port}",
            organization=segments[0],
            database=segments[1],
            user=None if parts.username is None else unquote(parts.username),
            password=unquote(parts.password or ""),
        )

    def __str__(self) -> str:
        """For display, without a password."""
        return f"terminusdb+{self.server}/{self.path}"

    @property
    def path(self) -> str:
        return f"{quote(self.organization, safe='')}/{quote(self.database, safe='')}"

    @property
    def headers(self) -> dict[str, str]:
        """The credentials of every request; none make it anonymous."""
        if self.user is None:
            return {}
        pair = base64.b64encode(f"{self.user}:{self.password}".encode())
        return {"Authorization": f"Basic {pair.decode()}"}


def _unusable() -> InvalidArgument:
    return InvalidArgument("sink", f"write the address as {EXAMPLE}")
