"""A message of one system as a message of the other: what each can carry of the other. Pure.

Both have headers, and DriftQ also has an envelope. A copy on Kafka has the envelope as a header, and says
where it came from. A copy on DriftQ has the envelope of that header, without the fields that tell the broker
what to do with the message: the bridge has decided that. The other headers are copied; a copy on DriftQ is
without those that are not text, and without any where they are more than DriftQ takes.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from driftq.core.dead_lettered import NOT_RETRYABLE
from driftq.kafka.dead_letters import dead_letter_headers
from driftq.kafka.producing import BY_KEY
from driftq.model import Envelope
from driftq.model.dead_letter import FailedStage, HandlerDeadLetter, HandlerKind
from driftq.model.headers import headers_problem
from driftq.model.topic import DEAD_LETTER_PREFIX
from driftq.model.wire.append import PositionedMessage
from driftq.publishing.kafka.lane import Header, OutgoingEvent

ENVELOPE = "driftq.envelope"
TRACEPARENT = "traceparent"
SOURCE_TOPIC, SOURCE_PARTITION, SOURCE_OFFSET = "driftq.topic", "driftq.partition", "driftq.offset"
_OURS = frozenset({ENVELOPE, TRACEPARENT, SOURCE_TOPIC, SOURCE_PARTITION, SOURCE_OFFSET})
"""Headers that the bridge writes itself."""

HeaderRows = Iterable[Mapping[str, Any]]
"""Headers as Spark has them, each with `key` and `value`."""

_decode_envelope = msgspec.json.Decoder(Envelope).decode


class StoredRow(msgspec.Struct, frozen=True):
    """A message of a DriftQ topic, as Spark reads it."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    key: str
    value: str
    envelope: str | None
    headers: list[dict[str, Any]] | None = None


def to_kafka(row: StoredRow, topic: str, *, partitions: int) -> OutgoingEvent:
    """The copy on a topic of Kafka with this many partitions.

    Its position is one more than its offset: a lane's position means that everything up to it is sent, and 0
    means nothing. A message with a key goes where Kafka's clients put the key; one without a key keeps its
    partition, so that both keep their order.
    """
    headers: list[Header] = [
        (SOURCE_TOPIC, row.topic),
        (SOURCE_PARTITION, str(row.partition)),
        (SOURCE_OFFSET, str(row.offset)),
    ]
    if row.envelope is not None:
        headers.append((ENVELOPE, row.envelope))
        traceparent = _decode_envelope(row.envelope).traceparent
        if traceparent is not None:
            headers.append((TRACEPARENT, traceparent))
    headers += [(one["key"], one["value"]) for one in row.headers or () if one["key"] not in _OURS]
    return OutgoingEvent(
        row.offset + 1,
        topic,
        row.key or None,
        row.value,
        headers,
        BY_KEY if row.key else row.partition % partitions,
        row.timestamp_ms,
    )


def to_driftq(
    offset: int,
    *,
    key: str | None,
    value: str | None,
    envelope: str | None,
    traceparent: str | None,
    headers: HeaderRows | None = None,
) -> PositionedMessage:
    """The copy on a DriftQ topic, whose keys and values are texts: what is absent is empty."""
    carried = carried_envelope(envelope, traceparent)
    return PositionedMessage(offset, value or "", key or "", carried, carried_headers(headers or ()))


def carried_headers(given: HeaderRows) -> dict[str, str] | None:
    """Headers of a message on Kafka that a message on DriftQ can have; of two with one name the last."""
    carried: dict[str, str] = {}
    for one in given:
        name, value = one["key"], one["value"]
        if not name or name in _OURS:
            continue
        try:
            carried[name] = "" if value is None else bytes(value).decode()
        except UnicodeDecodeError:
            continue
    return None if headers_problem(carried) else carried or None


def carried_envelope(text: str | None, traceparent: str | None) -> Envelope | None:
    """Of the envelope in a header, what describes the message; any producer may have written the header."""
    try:
        given = Envelope() if text is None else _decode_envelope(text)
    except (ValueError, RecursionError):
        given = Envelope()
    policy = given.retry_policy
    carried = Envelope(
        run_id=given.run_id,
        step_id=given.step_id,
        parent_step_id=given.parent_step_id,
        tenant_id=given.tenant_id,
        retry_policy=None if policy is None or policy.problem() else policy,
        traceparent=given.traceparent or traceparent,
    )
    return None if carried == Envelope() else carried


def bridge_letter(event: OutgoingEvent, error: str, *, bridge: str, identity: str) -> OutgoingEvent:
    """What is sent to `dlq.<topic>` in place of a message that Kafka does not take; DriftQ still has it."""
    named = dict(event.headers)
    facts = HandlerDeadLetter(
        kind=HandlerKind.BRIDGE,
        handler=bridge,
        topic=str(named[SOURCE_TOPIC]),
        partition=int(str(named[SOURCE_PARTITION])),
        offset=event.position - 1,
        stage=FailedStage.PUBLISH.value,
        error=error,
        reason=NOT_RETRYABLE,
        attempts=1,
        at=time.time_ns() // 1_000_000,
        identity=identity,
    )
    headers: list[Header] = [*event.headers, *dead_letter_headers(facts, value_omitted=True)]
    return OutgoingEvent(event.position, DEAD_LETTER_PREFIX + event.topic, event.key, b"", headers)
