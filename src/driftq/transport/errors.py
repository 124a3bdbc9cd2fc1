"""Wire errors: the classes that the server raised, rebuilt with their fields from its responses.

An error body names its class (`kind`) and has its fields beside code and message. Without a kind, or with one
that this version has no class for, reason and code decide.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

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
    """Every error class of DriftQ's own; subclasses that users define are left out."""
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


def read_error(status: int, body: bytes) -> DriftQError:
    """The error that a response carries; a body that is no error body gives a DriftQError with the status."""
    try:
        fields = json.loads(body)
    except (ValueError, RecursionError):
        fields = None
    return rebuild(fields if isinstance(fields, dict) else {}, status=status)


def is_transient(error: DriftQError) -> bool:
    """The same request may succeed later."""
    transient = Unavailable | ResourceExhausted | RequestTimeout
    return isinstance(error, transient) or error.reason == "idempotency_pending"
