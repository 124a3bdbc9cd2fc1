"""Writing rows: one INSERT in the caller's transaction, and nothing else.

Nothing here connects to a server or to a database, and nothing commits. On a connection in autocommit mode
the row is a transaction of its own.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from typing import Any, Unpack

from driftq.client.producing.outgoing import EnvelopeFields
from driftq.model import Event
from driftq.outbox.connections import run, run_async
from driftq.outbox.rows import JobReference, JobTask, NewRow, event_row, job_row, message_row

_INSERT = "INSERT INTO driftq_outbox (row_key, kind, target, key, body) VALUES (?, ?, ?, ?, ?)"


def enqueue(
    connection: Any,
    task: JobTask,
    *args: Any,
    priority: int | None = None,
    delay: float | None = None,
    run_at: dt.datetime | None = None,
    idempotency_key: str | None = None,
    metadata: Mapping[str, str] | None = None,
    after: Sequence[JobReference] = (),
    **named: Any,
) -> None:
    """Enqueue a job if the transaction commits. Takes what `task.enqueue` takes.

    `delay` (seconds) counts from this call, by this machine's clock. `after` are jobs that the server has.
    """
    row = job_row(
        task,
        args,
        named,
        priority=priority,
        delay=delay,
        run_at=run_at,
        idempotency_key=idempotency_key,
        metadata=metadata,
        after=after,
    )
    run(connection, _INSERT, _values(row))


def produce(
    connection: Any,
    topic: str,
    value: Any,
    *,
    key: str = "",
    idempotency_key: str | None = None,
    headers: Mapping[str, str] | None = None,
    **envelope: Unpack[EnvelopeFields],
) -> None:
    """Produce a message if the transaction commits. Routers do not see it: it goes to the topic itself."""
    row = message_row(
        topic, value, key=key, idempotency_key=idempotency_key, headers=headers, envelope=envelope
    )
    run(connection, _INSERT, _values(row))


def append(connection: Any, event: Event, *, expected_seq: int | None = None) -> None:
    """Append an event if the transaction commits.

    The server checks `expected_seq` when the relay sends the event, after the commit: a conflict parks it.
    """
    run(connection, _INSERT, _values(event_row(event, expected_seq=expected_seq)))


async def enqueue_async(
    connection: Any,
    task: JobTask,
    *args: Any,
    priority: int | None = None,
    delay: float | None = None,
    run_at: dt.datetime | None = None,
    idempotency_key: str | None = None,
    metadata: Mapping[str, str] | None = None,
    after: Sequence[JobReference] = (),
    **named: Any,
) -> None:
    """`enqueue` on an asynchronous connection."""
    row = job_row(
        task,
        args,
        named,
        priority=priority,
        delay=delay,
        run_at=run_at,
        idempotency_key=idempotency_key,
        metadata=metadata,
        after=after,
    )
    await run_async(connection, _INSERT, _values(row))


async def produce_async(
    connection: Any,
    topic: str,
    value: Any,
    *,
    key: str = "",
    idempotency_key: str | None = None,
    headers: Mapping[str, str] | None = None,
    **envelope: Unpack[EnvelopeFields],
) -> None:
    """`produce` on an asynchronous connection."""
    row = message_row(
        topic, value, key=key, idempotency_key=idempotency_key, headers=headers, envelope=envelope
    )
    await run_async(connection, _INSERT, _values(row))


async def append_async(connection: Any, event: Event, *, expected_seq: int | None = None) -> None:
    """`append` on an asynchronous connection."""
    await run_async(connection, _INSERT, _values(event_row(event, expected_seq=expected_seq)))


def _values(row: NewRow) -> tuple[str, ...]:
    return (row.row_key, str(row.kind), row.target, row.key, row.body)
