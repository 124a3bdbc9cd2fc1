"""DriftQ: a durable message broker in one process and one folder.

Here are the client, the worker and the words of `driftq.model`. They are loaded when first used, so that
`import driftq` costs next to nothing. The errors are in `driftq.errors`, and each may be named here too:
`except driftq.TopicNotFound`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from driftq import errors as errors
    from driftq import outbox as outbox
    from driftq import steps as steps
    from driftq.client import AlreadyCommitted as AlreadyCommitted
    from driftq.client import AppendReceipt as AppendReceipt
    from driftq.client import AsyncClient as AsyncClient
    from driftq.client import AsyncDelivery as AsyncDelivery
    from driftq.client import AsyncEventStore as AsyncEventStore
    from driftq.client import Begun as Begun
    from driftq.client import Client as Client
    from driftq.client import ClientOptions as ClientOptions
    from driftq.client import DeadLetter as DeadLetter
    from driftq.client import Delivery as Delivery
    from driftq.client import EventReceipt as EventReceipt
    from driftq.client import EventStore as EventStore
    from driftq.client import Held as Held
    from driftq.client import LeftUnknown as LeftUnknown
    from driftq.client import OpenWriter as OpenWriter
    from driftq.client import PositionedMessage as PositionedMessage
    from driftq.client import Receipt as Receipt
    from driftq.client import RecordedMessage as RecordedMessage
    from driftq.client import new_event_id as new_event_id
    from driftq.effects import HttpAnswer as HttpAnswer
    from driftq.effects import HttpEffect as HttpEffect
    from driftq.embedded import open as open  # noqa: A004 - said as `driftq.open`.
    from driftq.embedded import open_async as open_async
    from driftq.errors import *  # noqa: F403 - every error there is, also later ones.
    from driftq.model import Envelope as Envelope
    from driftq.model import Event as Event
    from driftq.model import Message as Message
    from driftq.model import Operation as Operation
    from driftq.model import RetryPolicy as RetryPolicy
    from driftq.model import Routing as Routing
    from driftq.model import RoutingDecision as RoutingDecision
    from driftq.tables.reader import table_files as table_files
    from driftq.worker import Context as Context
    from driftq.worker import Effect as Effect
    from driftq.worker import JobContext as JobContext
    from driftq.worker import JobHandle as JobHandle
    from driftq.worker import JobLimits as JobLimits
    from driftq.worker import Jobs as Jobs
    from driftq.worker import Reject as Reject
    from driftq.worker import Retry as Retry
    from driftq.worker import Settled as Settled
    from driftq.worker import Task as Task
    from driftq.worker import Worker as Worker

    __version__: str

_HOMES = {
    "Client": "driftq.client",
    "AsyncClient": "driftq.client",
    "ClientOptions": "driftq.client",
    "open": "driftq.embedded",
    "open_async": "driftq.embedded",
    "Worker": "driftq.worker",
    "Effect": "driftq.worker",
    "HttpEffect": "driftq.effects",
    "HttpAnswer": "driftq.effects",
    "Context": "driftq.worker",
    "Retry": "driftq.worker",
    "Reject": "driftq.worker",
    "Settled": "driftq.worker",
    "Jobs": "driftq.worker",
    "Task": "driftq.worker",
    "JobContext": "driftq.worker",
    "JobHandle": "driftq.worker",
    "JobLimits": "driftq.worker",
    "EventStore": "driftq.client",
    "AsyncEventStore": "driftq.client",
    "Event": "driftq.model",
    "Operation": "driftq.model",
    "EventReceipt": "driftq.client",
    "new_event_id": "driftq.client",
    "Message": "driftq.model",
    "Envelope": "driftq.model",
    "RetryPolicy": "driftq.model",
    "Routing": "driftq.model",
    "RoutingDecision": "driftq.model",
    "Receipt": "driftq.client",
    "Delivery": "driftq.client",
    "AsyncDelivery": "driftq.client",
    "DeadLetter": "driftq.client",
    "RecordedMessage": "driftq.client",
    "PositionedMessage": "driftq.client",
    "AppendReceipt": "driftq.client",
    "OpenWriter": "driftq.client",
    "Begun": "driftq.client",
    "AlreadyCommitted": "driftq.client",
    "Held": "driftq.client",
    "LeftUnknown": "driftq.client",
    "table_files": "driftq.tables.reader",
    "DriftQError": "driftq.errors",
}
"""Which package each name lives in; every other name with a capital is an error's."""

_PACKAGES = frozenset({"errors", "outbox", "steps"})
"""What is used as `driftq.outbox.enqueue` and the like."""

__all__ = [*_HOMES, *_PACKAGES]  # noqa: PLE0604 - texts, all of them.


def __getattr__(name: str) -> object:
    if name == "__version__":
        value: object = import_module("importlib.metadata").version("driftq")
    elif name in _PACKAGES:
        value = import_module(f"driftq.{name}")
    elif name in _HOMES:
        value = getattr(import_module(_HOMES[name]), name)
    elif name[0].isupper():
        value = getattr(import_module("driftq.errors"), name, None)
    else:
        value = None
    if value is None:
        raise AttributeError(f"module 'driftq' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """What one uses, without the errors: `dir(driftq.errors)` has them, and would hide the rest here."""
    return [*__all__, "__version__", "__doc__", "__name__"]
