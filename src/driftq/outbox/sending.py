"""Sending rows: by position, in batches, each so that a repetition changes nothing on the server.

    messages   appended by position (the server keeps the last one with the messages), under the relay's token
    events     known to the server by their event_id for good
    jobs       known by their idempotency key until 7 days after the job has ended

A message or an event may so be sent again after any time. A job that was sent days ago, without an answer
that was recorded, may have been forgotten; it is parked for a person to look at, not sent again.
"""

from __future__ import annotations

import itertools
import logging
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from driftq.client import AsyncClient, PositionedMessage
from driftq.errors import (
    Conflict,
    DriftQError,
    IdempotencyMismatch,
    InvalidArgument,
    MethodNotAllowed,
    NotFound,
    PayloadTooLarge,
    RouteNotFound,
    TopicNotAllowed,
)
from driftq.model.envelope import Envelope
from driftq.outbox.rows import OutboxRow, RefusedRow, RowKind
from driftq.outbox.store import OutboxStore
from driftq.transport.errors import rebuild

JOB_WINDOW_MS = 6 * 24 * 3600 * 1000
"""A day less than the server remembers a finished job's key."""
BATCH_BYTES = 4 << 20
REFUSED_FOR_GOOD = (
    Conflict,
    IdempotencyMismatch,
    InvalidArgument,
    NotFound,
    PayloadTooLarge,
    TopicNotAllowed,
)
"""What sending the row again cannot change; anything else is an outage or a mistake in the relay's setup."""

logger = logging.getLogger("driftq.outbox")
_Send = Callable[[Sequence[OutboxRow]], Awaitable[None]]


class _MessageBody(msgspec.Struct, frozen=True):
    value: str
    envelope: Envelope | None = None
    headers: dict[str, str] | None = None


_decode_message = msgspec.json.Decoder(_MessageBody).decode


@dataclass(slots=True)
class Sent:
    """What became of rows, as far as it is known."""

    sent: list[int] = field(default_factory=list)
    refused: list[RefusedRow] = field(default_factory=list)


class RowSender:
    """Sends the rows of one relay's tenure."""

    def __init__(self, client: AsyncClient, store: OutboxStore) -> None:
        self._client = client
        self._store = store
        self._opened: set[str] = set()
        self._jobs_in_batches = True

    async def send(
        self,
        rows: Sequence[OutboxRow],
        held: dict[tuple[RowKind, str, str], int],
        outcome: Sent,
        *,
        now_ms: int,
    ) -> None:
        """Send the rows in order and note each in `outcome`. Raises what a later repetition may change.

        `held` are the keys that a parked row holds up: their rows are parked behind it.
        """
        ways: dict[RowKind, _Send] = {
            RowKind.MESSAGE: self._send_messages,
            RowKind.EVENT: self._send_events,
            RowKind.JOB: self._send_jobs,
        }
        for batch in _batches(rows):
            fit: list[OutboxRow] = []
            for row in batch:
                if row.order in held:
                    behind = held[row.order]
                    outcome.refused.append(RefusedRow(row.id, f"waits for row {behind}", behind=behind))
                elif _is_too_old(row, now_ms):
                    self._refuse(row, _TOO_OLD, held, outcome)
                else:
                    fit.append(row)
            if fit:
                await self._send_batch(ways[fit[0].kind], fit, held, outcome)

    async def _send_batch(
        self, way: _Send, rows: Sequence[OutboxRow], held: dict[tuple[RowKind, str, str], int], outcome: Sent
    ) -> None:
        try:
            await way(rows)
            outcome.sent += [row.id for row in rows]
            return
        except REFUSED_FOR_GOOD as refused:
            if len(rows) == 1:
                self._refuse(rows[0], f"{type(refused).__name__}: {refused}", held, outcome)
                return
        for row in rows:  # One by one, to find the row that was meant.
            if row.order in held:
                behind = held[row.order]
                outcome.refused.append(RefusedRow(row.id, f"waits for row {behind}", behind=behind))
            else:
                await self._send_batch(way, [row], held, outcome)

    def _refuse(
        self, row: OutboxRow, error: str, held: dict[tuple[RowKind, str, str], int], outcome: Sent
    ) -> None:
        logger.error("row %d (%s to %s) is parked: %s", row.id, row.kind, row.target, error)
        outcome.refused.append(RefusedRow(row.id, error))
        if row.order is not None:
            held[row.order] = row.id

    async def _send_messages(self, rows: Sequence[OutboxRow]) -> None:
        topic = rows[0].target
        if topic not in self._opened:
            await self._open(topic)
        messages = []
        for row in rows:
            body = _decode_message(row.body)
            messages.append(
                PositionedMessage(
                    position=row.position,
                    value=body.value,
                    key=row.key,
                    envelope=body.envelope,
                    headers=body.headers,
                )
            )
        await self._client.append(topic, messages, writer=self._writer, epoch=self._store.token)

    @property
    def _writer(self) -> str:
        return f"outbox-{self._store.outbox_id}"

    async def _open(self, topic: str) -> None:
        """Fence older relays there, and make sure that the server has no more of us than we have sent."""
        opened = await self._client.writer(topic, self._writer, epoch=self._store.token)
        if opened.lanes.get(0, -1) > self._store.last_position:
            logger.warning(
                "the outbox at %s is older than what was sent from it, as after a restore: rows of that time "
                "may be sent once more",
                self._store.address,
            )
            self._store.renew_identity()
            self._opened.clear()
            await self._client.writer(topic, self._writer, epoch=self._store.token)
        self._opened.add(topic)

    async def _send_events(self, rows: Sequence[OutboxRow]) -> None:
        events = [msgspec.Raw(row.body.encode()) for row in rows]
        await self._client.call("POST", "/v1/events", body=events, repeatable=True)

    async def _send_jobs(self, rows: Sequence[OutboxRow]) -> None:
        jobs = [msgspec.Raw(row.body.encode()) for row in rows]
        if len(jobs) > 1 and self._jobs_in_batches:
            try:
                answer = await self._client.call(
                    "POST", "/v1/jobs/batch", body={"jobs": jobs}, repeatable=True
                )
            except (RouteNotFound, MethodNotAllowed):
                self._jobs_in_batches = False  # A server from before there were batches.
            else:
                _raise_first_error(answer["results"])
                return
        for job in jobs:
            await self._client.call("POST", "/v1/jobs", body=job, repeatable=True)


_TOO_OLD = (
    "was sent more than 6 days ago without a recorded answer, and the server may have forgotten it: "
    "look whether the job ran, then retry or delete the row"
)


def _is_too_old(row: OutboxRow, now_ms: int) -> bool:
    return (
        row.kind is RowKind.JOB
        and row.first_sent_at is not None
        and now_ms - row.first_sent_at > JOB_WINDOW_MS
    )


def _raise_first_error(results: Sequence[dict[str, Any]]) -> None:
    errors: list[DriftQError] = [rebuild(result) for result in results if "error" in result]
    for error in errors:
        if not isinstance(error, REFUSED_FOR_GOOD):
            raise error  # An outage decides over the whole batch.
    if errors:
        raise errors[0]


def _batches(rows: Sequence[OutboxRow]) -> Iterator[list[OutboxRow]]:
    """Neighbours that one request can take, in order."""

    def way(row: OutboxRow) -> tuple[RowKind, str]:
        return row.kind, row.target if row.kind is RowKind.MESSAGE else ""

    for _, run in itertools.groupby(rows, way):
        batch: list[OutboxRow] = []
        size = 0
        for row in run:
            if batch and size + len(row.body) > BATCH_BYTES:
                yield batch
                batch, size = [], 0
            batch.append(row)
            size += len(row.body)
        yield batch
