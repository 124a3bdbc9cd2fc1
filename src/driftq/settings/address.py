"""Addresses of databases, object storage and sinks, and how they are shown without their passwords."""

import re
from dataclasses import dataclass
from urllib.parse import urlsplit

from driftq.model.options.sink_addresses import is_sink_address

POSTGRES_SCHEMES = ("postgresql", "postgres", "postgresql+psycopg")

_PASSWORD = re.compile(
    r"(?<=://)([^/@:\s]*):[^/\s]*@|(?<=[?&])([^=&\s]*(?:password|secret|token|key))=[^&\s]*", re.IGNORECASE
)


@dataclass(frozen=True, slots=True)
class DatabaseUrl:
    """An SQLite file, or a PostgreSQL database."""

    name: str = "url"
    allowed: str = "an address like sqlite:////folder/file.db or postgresql://user@host/name"

    def read(self, text: str) -> str:
        scheme, found, rest = text.partition("://")
        if not found or not text.isprintable() or " " in text:
            raise ValueError(self.allowed)
        if scheme == "sqlite":
            sound = rest.startswith("/") and len(rest) > 1
        else:
            sound = scheme in POSTGRES_SCHEMES and rest not in ("", "/")
        if not sound:
            raise ValueError(self.allowed)
        return text


@dataclass(frozen=True, slots=True)
class ObjectsUrl:
    """A folder, or a bucket with an optional prefix."""

    name: str = "url"
    allowed: str = "an address like file:///folder or s3://bucket/prefix"

    def read(self, text: str) -> str:
        try:
            parts = urlsplit(text)
        except ValueError:
            raise ValueError(self.allowed) from None
        folder = parts.scheme == "file" and parts.netloc in ("", "localhost") and len(parts.path) > 1
        bucket = parts.scheme == "s3" and parts.netloc
        if not (folder or bucket) or parts.query or parts.fragment or not text.isprintable():
            raise ValueError(self.allowed)
        return text


@dataclass(frozen=True, slots=True)
class SinkAddresses:
    """Addresses of sinks with spaces between them. Each sink checks the rest of its address."""

    name: str = "urls"
    allowed: str = (
        "addresses with spaces between them, like sqlite:////folder/file.db redis://host:6379/0 module:sink"
    )

    def read(self, text: str) -> str:
        addresses = text.split()
        if not addresses or not text.isprintable() or not all(map(is_sink_address, addresses)):
            raise ValueError(self.allowed)
        return " ".join(addresses)


def is_postgres(url: str | None) -> bool:
    return url is not None and url.partition("://")[0] in POSTGRES_SCHEMES


def without_password(text: str) -> str:
    """The same text without the password in an address, for output."""
    return _PASSWORD.sub(lambda found: f"{found[2]}=***" if found[2] else f"{found[1]}:***@", text)
