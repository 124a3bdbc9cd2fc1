"""DriftQ: a durable message broker in one process and one folder.

Here are the client, the words of `driftq.model` and the errors of `driftq.errors`. They are loaded when first
used, so that `import driftq` costs next to nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from driftq.client import AlreadyCommitted as AlreadyCommitted
    from driftq.client import AppendReceipt as AppendReceipt
    from driftq.client import AsyncClient as AsyncClient
    from driftq.client import AsyncDelivery as AsyncDelivery
    from driftq.client import Begun as Begun
    from driftq.client import Client as Client
    from driftq.client import ClientOptions as ClientOptions
    from driftq.client import Delivery as Delivery
    from driftq.client import EventReceipt as EventReceipt
    from driftq.client import EventStore as EventStore
    from driftq.client import Held as Held
    from driftq.client import OpenWriter as OpenWriter
    from driftq.client import PositionedMessage as PositionedMessage
    from driftq.client import Receipt as Receipt
    from driftq.client import RecordedMessage as RecordedMessage
    from driftq.client import new_event_id as new_event_id
    from driftq.embedded import open as open  # noqa: A004 - said as `driftq.open`.
    from driftq.embedded import open_async as open_async
    from driftq.errors import *  # noqa: F403 - every error there is, also those of later rooms.
    from driftq.housekeeping.tables import table_files as table_files
    from driftq.model import Envelope as Envelope
    from driftq.model import Event as Event
    from driftq.model import Message as Message
    from driftq.model import Operation as Operation
    from driftq.model import RetryPolicy as RetryPolicy
    from driftq.model import Routing as Routing
    from driftq.model import RoutingDecision as RoutingDecision
    from driftq.worker import Context as Context
    from driftq.worker import Effect as Effect
    from driftq.worker import JobContext as JobContext
    from driftq.worker import Jobs as Jobs
    from driftq.worker import Reject as Reject
    from driftq.worker import Retry as Retry
    from driftq.worker import Settled as Settled
    from driftq.worker import Task as Task
    from driftq.worker import Worker as Worker

    __version__: str

_HOMES = {
    "AsyncClient": "driftq.client",
    "AsyncDelivery": "driftq.client",
    "Client": "driftq.client",
    "ClientOptions": "driftq.client",
    "Delivery": "driftq.client",
    "EventReceipt": "driftq.client",
    "EventStore": "driftq.client",
    "AppendReceipt": "driftq.client",
    "OpenWriter": "driftq.client",
    "PositionedMessage": "driftq.client",
    "Receipt": "driftq.client",
    "RecordedMessage": "driftq.client",
    "new_event_id": "driftq.client",
    "open": "driftq.embedded",
    "open_async": "driftq.embedded",
    "table_files": "driftq.housekeeping.tables",
    "Envelope": "driftq.model",
    "Event": "driftq.model",
    "Message": "driftq.model",
    "Operation": "driftq.model",
    "RetryPolicy": "driftq.model",
    "Routing": "driftq.model",
    "RoutingDecision": "driftq.model",
    "Worker": "driftq.worker",
    "Task": "driftq.worker",
    "Settled": "driftq.worker",
    "Retry": "driftq.worker",
    "Reject": "driftq.worker",
    "Jobs": "driftq.worker",
    "JobContext": "driftq.worker",
    "Effect": "driftq.worker",
    "Context": "driftq.worker",
    "Held": "driftq.client",
    "Begun": "driftq.client",
    "AlreadyCommitted": "driftq.client",
}
"""Which room each name lives in; every other name with a capital is an error's."""


def __getattr__(name: str) -> object:
    if name == "__version__":
        value: object = import_module("importlib.metadata").version("driftq")
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
    errors = vars(import_module("driftq.errors"))
    classes = [name for name, value in errors.items() if isinstance(value, type)]
    return sorted({*globals(), *_HOMES, *classes, "__version__"})
