"""Replies about the server itself, and error replies."""

from __future__ import annotations

import msgspec


class ErrorReply(msgspec.Struct, frozen=True, omit_defaults=True):
    """Any error. An error with fields of its own has them beside these."""

    error: str
    message: str
    reason: str | None = None
    retry_after_ms: int | None = None
    kind: str | None = None


class StatusReply(msgspec.Struct, frozen=True):
    status: str


class ClockWarning(msgspec.Struct, frozen=True):
    """The log is ahead of the machine's clock."""

    code: str
    message: str
    ahead_ms: int


class ReadyReply(msgspec.Struct, frozen=True, omit_defaults=True):
    status: str
    warnings: list[ClockWarning] = []


class WhoamiReply(msgspec.Struct, frozen=True):
    """The key of a request: what it may do, and on which topics; no topics: all of them."""

    name: str
    roles: list[str]
    tenant: str | None
    topics: list[str]


class VersionReply(msgspec.Struct, frozen=True):
    version: str
    commit: str
    wal_enabled: bool
    fsync: str
