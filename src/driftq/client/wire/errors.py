"""Errors from the wire: the same classes with the same fields as where they were raised.

A refusal names its class (`kind`) and carries its fields beside code and message. Without a kind, or with one
that this client does not know, it is understood by reason and code.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

import msgspec

from driftq.errors import (
    Conflict,
    DriftQError,
    FailedPrecondition,
    InvalidArgument,
    MethodNotAllowed,
    NotFound,
    PayloadTooLarge,
    PermissionDenied,
    RequestTimeout,
    ResourceExhausted,
    TopicExists,
    Unauthenticated,
    Unavailable,
)

_KINDS_BY_CODE: dict[str, type[DriftQError]] = {
    kind.code: kind
    for kind in (
        InvalidArgument,
        Unauthenticated,
        PermissionDenied,
        NotFound,
        MethodNotAllowed,
        RequestTimeout,
        FailedPrecondition,
        TopicExists,
        Conflict,
        PayloadTooLarge,
        ResourceExhausted,
        Unavailable,
    )
}
_WIRE_ONLY = frozenset({"error", "message", "reason", "kind"})


def all_errors() -> Iterator[type[DriftQError]]:
    """Every class of the tree that is DriftQ's own, not those that its users derive from them."""
    found: list[type[DriftQError]] = [DriftQError]
    while found:
        kind = found.pop()
        if kind.__module__.startswith("driftq.errors."):
            yield kind
        found += kind.__subclasses__()


@cache
def _kinds_by_name() -> dict[str, type[DriftQError]]:
    return {kind.__name__: kind for kind in all_errors()}


@cache
def _kinds_by_reason() -> dict[tuple[str, str], type[DriftQError]]:
    return {
        (kind.code, kind.reason): kind for kind in _kinds_by_name().values() if isinstance(kind.reason, str)
    }


def rebuild(fields: Mapping[str, Any], *, status: int = 500) -> DriftQError:
    """The error that the server raised."""
    code = str(fields.get("error", ""))
    kind = _kinds_by_name().get(str(fields.get("kind", "")))
    if kind is None:
        kind = _kinds_by_reason().get((code, str(fields.get("reason", ""))))
    if kind is None:
        kind = _KINDS_BY_CODE.get(code, DriftQError)
    error = kind.__new__(kind, str(fields.get("message", f"the server answered {status}")))
    for name, value in fields.items():
        if name not in _WIRE_ONLY:
            setattr(error, name, value)
    if kind is DriftQError:
        error.code, error.status = code or error.code, status
    if "reason" in fields and fields["reason"] != error.reason:
        error.reason = str(fields["reason"])
    return error


def read_refusal(status: int, body: bytes) -> DriftQError:
    """The error of a whole answer; whatever it is that answered, this does not fail."""
    try:
        fields = msgspec.json.decode(body)
    except (ValueError, RecursionError):
        fields = None
    return rebuild(fields if isinstance(fields, dict) else {}, status=status)


def is_passing(error: DriftQError) -> bool:
    """It may be over at the next try."""
    passing = Unavailable | ResourceExhausted | RequestTimeout
    return isinstance(error, passing) or error.reason == "idempotency_pending"
