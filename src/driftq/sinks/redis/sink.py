"""The sink: read models in Redis, Valkey or a cluster of either."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Self
from urllib.parse import parse_qsl, urlencode, urlsplit

from driftq.errors import InvalidArgument
from driftq.sinks.documents.control import read_control
from driftq.sinks.documents.model import DocumentReadModel
from driftq.sinks.names import projection_name
from driftq.sinks.port import Capabilities, WriterEpoch
from driftq.sinks.redis.connection import EXAMPLE, RedisAddress
from driftq.sinks.redis.keys import ProjectionKeys
from driftq.sinks.redis.store import Lifetimes, RedisStore

_PREFIX = re.compile(r"[A-Za-z0-9._:/-]{1,100}")
_DATABASE = re.compile(r"/?[0-9]*")
_SCHEMES = ("redis", "rediss", "unix")
_NUMBERS = ("ttl_ms", "guard_ttl_ms", "wait_replicas")
_SWITCHES = ("cluster", "assume_noeviction")
_BOOLEANS = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}


@dataclass(frozen=True, slots=True)
class RedisSink:
    """Documents under `prefix` at `url`, whose options are those of redis-py. Raises InvalidArgument."""

    url: str = field(repr=False)
    prefix: str = "driftq"
    ttl_ms: int | None = None
    """Documents without a change for this long are removed, and their sequence stays as a guard."""
    guard_ttl_ms: int | None = None
    """How long the guards of removed documents live; None keeps them. Longer than the longest replay."""
    cluster: bool = False
    wait_replicas: int = 0
    """How many replicas of each node must have a batch before its position moves."""
    assume_noeviction: bool = False
    """For servers that do not let their eviction policy be read."""

    def __post_init__(self) -> None:
        _check_url(self.url)
        if not _PREFIX.fullmatch(self.prefix):
            raise InvalidArgument("prefix", "use 1 to 100 of A-Z, a-z, 0-9, and . _ : / -")
        for name in ("ttl_ms", "guard_ttl_ms"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise InvalidArgument(name, "must be 1 or more, or None")
        if self.guard_ttl_ms is not None and self.guard_ttl_ms <= (self.ttl_ms or 0):
            raise InvalidArgument("guard_ttl_ms", "must be more than ttl_ms: a guard outlives its document")
        if self.wait_replicas < 0:
            raise InvalidArgument("wait_replicas", "must not be negative")

    @classmethod
    def from_url(cls, url: str) -> Self:
        """`redis://host:6379/0?prefix=…`; other options of this class may follow, then those of redis-py."""
        _check_url(url)
        parts = urlsplit(url)
        given: dict[str, str | int | bool] = {}
        others: list[tuple[str, str]] = []
        for name, value in parse_qsl(parts.query, keep_blank_values=True):
            if name == "prefix":
                given[name] = value
            elif name in _NUMBERS:
                if not value.isascii() or not value.isdigit():
                    raise InvalidArgument(name, "must be a whole number")
                given[name] = int(value)
            elif name in _SWITCHES:
                if value.lower() not in _BOOLEANS:
                    raise InvalidArgument(name, "must be true or false")
                given[name] = _BOOLEANS[value.lower()]
            else:
                others.append((name, value))
        return cls(parts._replace(query=urlencode(others)).geturl(), **given)  # type: ignore[arg-type]

    @property
    def capabilities(self) -> Capabilities:
        """Ordered folds need what they wrote last, which a lifetime may have removed."""
        return Capabilities(ordered=self.ttl_ms is None)

    def connect(self, projection: str) -> RedisReadModel:
        name = projection_name(projection)
        return RedisReadModel(name, self, self.open_store(name))

    def open_store(self, projection: str) -> RedisStore:
        keys = ProjectionKeys(self.prefix, projection_name(projection))
        connection = RedisAddress(self.url, self.cluster).connect()
        try:
            value_bytes_max = connection.require(assume_noeviction=self.assume_noeviction)
        except BaseException:
            connection.close()
            raise
        return RedisStore(
            connection,
            keys,
            lifetimes=Lifetimes(value_ms=self.ttl_ms, guard_ms=self.guard_ttl_ms),
            value_bytes_max=value_bytes_max,
            wait_replicas=self.wait_replicas,
        )


class RedisReadModel(DocumentReadModel):
    """A read model whose guards may have a lifetime."""

    def __init__(self, name: str, sink: RedisSink, store: RedisStore) -> None:
        super().__init__(name, sink, store)
        self._redis = store
        self._guard_ms = sink.guard_ttl_ms

    def take_over(self) -> WriterEpoch:
        """Raises InvalidArgument where guards have expired since the last write: only a rebuild helps."""
        place = read_control(self.store).live.place
        if self._guard_ms is not None and place and self._redis.idle_ms(place) > self._guard_ms:
            raise InvalidArgument(
                "sink",
                f"{self.name!r} was last written longer ago than its guards live (guard_ttl_ms "
                f"{self._guard_ms}), and older events could return. Run: driftq pipeline run rebuild --name "
                f"{self.name}",
            )
        return super().take_over()


def _check_url(url: str) -> None:
    """No error shows the address: what is wrong with it may be its password."""
    try:
        parts = urlsplit(url)
        is_fit = parts.scheme in _SCHEMES and (parts.port is None or parts.port > 0)
    except ValueError:
        raise InvalidArgument("sink", f"write the address as {EXAMPLE}") from None
    if parts.scheme != "unix":
        is_fit = is_fit and bool(parts.hostname) and _DATABASE.fullmatch(parts.path) is not None
    if not is_fit or parts.fragment:
        raise InvalidArgument("sink", f"write the address as {EXAMPLE}")
