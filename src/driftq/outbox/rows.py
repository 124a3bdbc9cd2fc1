"""What is in the outbox: a job, message or event as the server's HTTP interface takes it."""

from __future__ import annotations

import datetime as dt
import enum
import uuid
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import msgspec

from driftq.client.producing.outgoing import EnvelopeFields, outgoing, with_instant, with_trace
from driftq.errors import InvalidArgument
from driftq.model import Event
from driftq.telemetry.tracing import current_traceparent

BODY_BYTES_MAX = 64 << 20
"""Far above what a server takes: what it refuses is parked, but no database should hold more than this."""


class RowKind(enum.StrEnum):
    """What a row becomes."""

    JOB = "job"
    MESSAGE = "message"
    EVENT = "event"


class NewRow(msgspec.Struct, frozen=True):
    """A row before it is in the table."""

    row_key: str
    """Unique: the job's idempotency key where it has none of its own, and that of the message."""
    kind: RowKind
    target: str
    """The queue, the topic or the aggregate type."""
    key: str
    """Rows of one kind, target and key are sent in order; "" promises nothing beyond their transaction."""
    body: str


class OutboxRow(msgspec.Struct, frozen=True):
    """A row that has its place."""

    id: int
    row_key: str
    kind: RowKind
    target: str
    key: str
    body: str
    position: int
    first_sent_at: int | None

    @property
    def order(self) -> tuple[RowKind, str, str] | None:
        """Rows with the same order are sent one after the other, also past a parked one."""
        return (self.kind, self.target, self.key) if self.key else None


class ParkedRow(msgspec.Struct, frozen=True):
    """A row that the server refused for good, or that waits behind such a row."""

    id: int
    kind: str
    target: str
    key: str
    parked_at: int
    behind: int | None
    error: str


class OutboxStatus(msgspec.Struct, frozen=True):
    """How far the relay is behind."""

    waiting: int
    parked: int
    oldest_age_ms: int
    last_position: int
    owner: str
    """The relay that runs, or that ran last."""
    running: bool


class EnqueuedReference(Protocol):
    """A job that was enqueued: `driftq.JobHandle` and the reply of a client."""

    @property
    def job_id(self) -> str: ...


JobReference = EnqueuedReference | str
"""A job, or its id."""


class RefusedRow(msgspec.Struct, frozen=True):
    """A row that is to be parked, and why; `behind` is the parked row that it waits for."""

    id: int
    error: str
    behind: int | None = None


class JobTask(Protocol):
    """What `driftq.Task` offers here."""

    @property
    def queue(self) -> str: ...

    def body(self, *args: Any, **named: Any) -> dict[str, Any]:
        """The job that `POST /v1/jobs` takes; raises TypeError for wrong arguments."""


def job_row(
    task: JobTask,
    args: tuple[Any, ...],
    named: dict[str, Any],
    *,
    priority: int | None,
    delay: float | None,
    run_at: dt.datetime | None,
    idempotency_key: str | None,
    metadata: Mapping[str, str] | None,
    after: Sequence[JobReference],
) -> NewRow:
    row_key = uuid.uuid4().hex
    body = task.body(*args, **named)
    if (traceparent := current_traceparent()) is not None:
        body["traceparent"] = traceparent
    if metadata is not None:
        body["metadata"] = dict(metadata)
    if after:
        body["after"] = [job if isinstance(job, str) else job.job_id for job in after]
    if delay is not None:
        run_at = dt.datetime.now(dt.UTC) + dt.timedelta(seconds=delay)
    if run_at is not None:
        if run_at.tzinfo is None:
            raise InvalidArgument("run_at", "needs a time zone")
        body["run_at"] = run_at.astimezone(dt.UTC).isoformat()
    if priority is not None:
        body["priority"] = priority
    body["idempotency_key"] = idempotency_key or row_key
    return NewRow(row_key, RowKind.JOB, task.queue, "", _text(body, "payload"))


def message_row(
    topic: str,
    value: Any,
    *,
    key: str,
    idempotency_key: str | None,
    headers: Mapping[str, str] | None,
    envelope: EnvelopeFields,
) -> NewRow:
    if "target_topic" in envelope:
        raise InvalidArgument("target_topic", "the outbox sends to the topic itself and calls no router")
    row_key = uuid.uuid4().hex
    envelope = with_instant(with_trace(envelope), lambda: dt.datetime.now(dt.UTC))
    message = outgoing(topic, value, key, idempotency_key or row_key, envelope, headers)
    fields: dict[str, Any] = {"value": message.value, "envelope": message.envelope}
    if message.headers:
        fields["headers"] = message.headers
    return NewRow(row_key, RowKind.MESSAGE, topic, key, _text(fields, "value"))


def event_row(event: Event, *, expected_seq: int | None) -> NewRow:
    fields = {name: getattr(event, name) for name in event.__struct_fields__ if name != "position"}
    fields["expected_seq"] = expected_seq
    given = {name: value for name, value in fields.items() if value is not None or name == "payload"}
    return NewRow(
        uuid.uuid4().hex, RowKind.EVENT, event.aggregate_type, event.aggregate_id, _text(given, "payload")
    )


def _text(fields: dict[str, Any], field: str) -> str:
    try:
        text = msgspec.json.encode(fields).decode()
    except (TypeError, ValueError, RecursionError, OverflowError) as error:
        raise InvalidArgument(field, f"cannot be written as JSON: {error}") from error
    if len(text) > BODY_BYTES_MAX:
        raise InvalidArgument(field, f"must not be longer than {BODY_BYTES_MAX} bytes")
    if "\x00" in text:  # JSON writes it as an escape, so this is none of ours.
        raise InvalidArgument(field, "must not contain the NUL character")
    return text
