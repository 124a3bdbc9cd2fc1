"""Where a search server is, and the names of a projection's indexes there.

    PREFIX-PROJECTION                  alias that readers search: the published place, without tombstones
    PREFIX-PROJECTION--PLACE           index with the documents of a place
    PREFIX-PROJECTION--PLACE--write    alias of that index, by which it is written and read
    PREFIX-PROJECTION--PLACE--notes    index with the notes of a place, and --notes--write
    PREFIX-driftq_control              index with the control texts of every projection

Writes demand the alias. A server would otherwise create the index of a dropped place again, for the sake of a
late write. No two of these names are equal: a projection's name has no hyphen, and a prefix no two in a row.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from urllib.parse import unquote, urlsplit

from driftq.errors import InvalidArgument

DEFAULT_PREFIX = "driftq"
_SCHEMES = {"opensearch+http": "http", "opensearch+https": "https", "http": "http", "https": "https"}
_PREFIX = re.compile(r"[a-z][a-z0-9_]*(-[a-z0-9_]+)*")
_PLACE = re.compile(r"[a-z0-9_.]+(-[a-z0-9_.]+)*")
_NAME_BYTES_MAX = 255


@dataclass(frozen=True, slots=True)
class SearchAddress:
    """A server's address in parts. `str` is for display: it has no password."""

    scheme: str
    host: str
    port: int
    user: str | None = None
    password: str | None = field(default=None, repr=False)

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{host}:{self.port}"


def parse_url(url: str, *, prefix: str) -> tuple[SearchAddress, str]:
    """The address, and the prefix of either; raises InvalidArgument, which does not repeat the address."""
    try:
        parts = urlsplit(url)
        port = parts.port or 9200
    except ValueError:
        parts, port = urlsplit(""), 0
    scheme = _SCHEMES.get(parts.scheme)
    if scheme is None or not parts.hostname or parts.query or parts.fragment:
        raise InvalidArgument(
            "url", "name a search server like opensearch+http://user:password@host:9200/PREFIX"
        )
    named = unquote(parts.path).strip("/")
    if named and prefix and named != prefix:
        raise InvalidArgument(
            "prefix", f"the address says {named!r} and the argument {prefix!r}: name one of them"
        )
    user, password = (None if part is None else unquote(part) for part in (parts.username, parts.password))
    address = SearchAddress(scheme, parts.hostname, port, user, password)
    return address, _checked(named or prefix or DEFAULT_PREFIX)


def _checked(prefix: str) -> str:
    if not _PREFIX.fullmatch(prefix) or len(prefix) > 100:
        raise InvalidArgument(
            "prefix",
            f"{prefix!r} cannot begin the names of indexes: use a-z, 0-9, _ and single -, "
            "at most 100 characters, a letter first",
        )
    return prefix


@dataclass(frozen=True, slots=True)
class IndexNames:
    """The names of one projection."""

    prefix: str
    projection: str

    @property
    def readers(self) -> str:
        """The alias that readers search."""
        return f"{self.prefix}-{self.projection}"

    @property
    def control(self) -> str:
        return f"{self.prefix}-driftq_control"

    def documents(self, place: str) -> str:
        if not _PLACE.fullmatch(place):
            raise InvalidArgument("place", f"{place!r} cannot be part of an index name")
        name = f"{self.readers}--{place}"
        if len(name) > _NAME_BYTES_MAX - len("--notes--write"):
            raise InvalidArgument("place", f"the name of the index {name!r} is too long")
        return name

    def notes(self, place: str) -> str:
        return f"{self.documents(place)}--notes"


def write_alias(index: str) -> str:
    return f"{index}--write"
