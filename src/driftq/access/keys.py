"""API keys: what a key may do, and how its text becomes an entry that does not reveal it.

A key is `dq_<id>_<secret>`. The id finds the entry and is no secret; of the secret, 256 random bits, only the
SHA-256 is kept. A slow hash would add nothing: nobody can search 256 bits, and every request is checked. The
secret begins with the word `secret`, because Spark redacts option values with this word in plans and logs.
"""

from __future__ import annotations

import fnmatch
import hashlib
import hmac
import re
import secrets
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property

PREFIX = "dq"
_ID_BYTES = 6
_SECRET_BYTES = 32
_MARK = "secret"


class Role(StrEnum):
    """What a key may do; `admin` may do everything."""

    READ = "read"
    PRODUCE = "produce"
    CONSUME = "consume"
    ADMIN = "admin"


@dataclass(frozen=True, kw_only=True)
class ApiKey:
    """One key as the server knows it."""

    id: str
    name: str
    digest: bytes = field(repr=False)
    """SHA-256 of the secret."""
    roles: frozenset[Role]
    topics: tuple[str, ...] = ()
    """Patterns of which one must match each topic that a request names; none: every topic."""
    tenant: str | None = None
    requests_per_s: int | None = None
    bytes_per_s: int | None = None
    """Of request bodies."""
    created_at: str = ""

    def has_role(self, roles: Iterable[Role]) -> bool:
        """Whether the key has one of these roles, or `admin`."""
        return Role.ADMIN in self.roles or not self.roles.isdisjoint(roles)

    def reaches(self, topic: str) -> bool:
        return self._patterns is None or self._patterns.fullmatch(topic) is not None

    def is_secret(self, secret: bytes) -> bool:
        """Whether this is the key's secret; takes the same time wherever they differ."""
        return hmac.compare_digest(hashlib.sha256(secret).digest(), self.digest)

    @cached_property
    def _patterns(self) -> re.Pattern[str] | None:
        if not self.topics:
            return None
        return re.compile("|".join(fnmatch.translate(pattern) for pattern in self.topics))


def new_key(
    name: str,
    *,
    roles: Iterable[Role],
    topics: Sequence[str] = (),
    tenant: str | None = None,
    requests_per_s: int | None = None,
    bytes_per_s: int | None = None,
    created_at: str = "",
) -> tuple[ApiKey, str]:
    """A new key: its entry, and its text, which exists nowhere else."""
    key_id, secret = secrets.token_hex(_ID_BYTES), f"{_MARK}{secrets.token_hex(_SECRET_BYTES)}"
    entry = ApiKey(
        id=key_id,
        name=name,
        digest=hashlib.sha256(secret.encode()).digest(),
        roles=frozenset(roles),
        topics=tuple(topics),
        tenant=tenant,
        requests_per_s=requests_per_s,
        bytes_per_s=bytes_per_s,
        created_at=created_at,
    )
    return entry, f"{PREFIX}_{key_id}_{secret}"


def bearer(authorization: bytes) -> tuple[str, bytes] | None:
    """The id and the secret in an `Authorization` header; None when it carries no key."""
    scheme, _, token = authorization.partition(b" ")
    parts = token.strip().split(b"_", 2)
    if scheme.lower() != b"bearer" or len(parts) != 3 or parts[0] != PREFIX.encode():
        return None
    return parts[1].decode("latin-1"), parts[2]
