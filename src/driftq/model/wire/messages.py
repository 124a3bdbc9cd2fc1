"""Messages on their way to readers: the consume stream, and stored messages read without a group."""

from __future__ import annotations

from typing import Literal

import msgspec
from msgspec import field

from driftq.model.envelope import Envelope
from driftq.model.message import Routing
from driftq.model.value import StoredValue
from driftq.model.wire.fields import Int64, LeaseMs, Name, Natural, Positive, Request, TopicName


class ConsumeBody(Request, frozen=True):
    """Which consumer reads what."""

    topic: TopicName
    group: Name
    owner: Name
    lease_ms: LeaseMs | None = None
    prefetch: Positive | None = None
    release_on_close: bool | None = None
    start: Literal["earliest", "latest"] | None = None


class DeliveryLine(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """A line of the consume stream."""

    partition: int
    offset: int
    attempts: int
    value: str
    key: str = ""
    last_error: str = ""
    routing: Routing | None = None
    envelope: Envelope | None = None
    requested_topic: str | None = None
    tries: int | None = None
    """Deliveries that count towards the retry policy, with this one; absent where it equals `attempts`."""
    headers: dict[str, str] | None = None


class RecordsQuery(Request, frozen=True):
    """Which stored messages: `from` inclusive, `to` exclusive."""

    partition: Int64 | None = None
    from_: Natural | None = field(default=None, name="from")
    to: Natural | None = None
    limit: Positive | None = None


class RecordedMessage(StoredValue, frozen=True, gc=False, omit_defaults=True):
    """A stored message, read without a group."""

    partition: int
    offset: int
    timestamp: str
    value: str
    key: str = field(default_factory=str)
    envelope: Envelope | None = None
    routing: Routing | None = None
    requested_topic: str | None = None
    headers: dict[str, str] | None = None
