"""DriftQ: a durable message broker in one process and one folder.

Names are loaded when they are first used, so that `import driftq` costs next to nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from driftq.errors import (
        AlreadySettled,
        DiskFull,
        DriftQError,
        FailedPrecondition,
        FormatTooNew,
        GroupNotFound,
        IdempotencyFull,
        IdempotencyMismatch,
        IdempotencyPending,
        InvalidArgument,
        LogCorrupt,
        LogError,
        LogLocked,
        MethodNotAllowed,
        NoCurrentDelivery,
        NotConfirmed,
        NotFound,
        NotOwner,
        Overloaded,
        PayloadTooLarge,
        PermissionDenied,
        ResourceExhausted,
        RouteNotFound,
        ShuttingDown,
        SnapshotDamaged,
        StaleAttempt,
        TopicExists,
        TopicNotFound,
        Unauthenticated,
        Unavailable,
        WritingStopped,
    )
    from driftq.model import Delivery, Envelope, Message, RetryPolicy, Routing, RoutingDecision

    __version__: str

_MODEL = frozenset({"Delivery", "Envelope", "Message", "RetryPolicy", "Routing", "RoutingDecision"})

__all__ = [
    "AlreadySettled",
    "Delivery",
    "DiskFull",
    "DriftQError",
    "Envelope",
    "FailedPrecondition",
    "FormatTooNew",
    "GroupNotFound",
    "IdempotencyFull",
    "IdempotencyMismatch",
    "IdempotencyPending",
    "InvalidArgument",
    "LogCorrupt",
    "LogError",
    "LogLocked",
    "Message",
    "MethodNotAllowed",
    "NoCurrentDelivery",
    "NotConfirmed",
    "NotFound",
    "NotOwner",
    "Overloaded",
    "PayloadTooLarge",
    "PermissionDenied",
    "ResourceExhausted",
    "RetryPolicy",
    "RouteNotFound",
    "Routing",
    "RoutingDecision",
    "ShuttingDown",
    "SnapshotDamaged",
    "StaleAttempt",
    "TopicExists",
    "TopicNotFound",
    "Unauthenticated",
    "Unavailable",
    "WritingStopped",
    "__version__",
]


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module 'driftq' has no attribute {name!r}")
    if name == "__version__":
        value: object = import_module("importlib.metadata").version("driftq")
    else:
        value = getattr(import_module("driftq.model" if name in _MODEL else "driftq.errors"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
