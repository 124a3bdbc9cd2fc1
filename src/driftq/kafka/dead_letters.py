"""Dead letters of handlers as messages of Kafka: the event's key and value, and a header for each fact.

The names are those of `envelope.dlq` on DriftQ with `dlq.` in front, so that the event's own headers keep
theirs.
"""

from __future__ import annotations

from collections.abc import Sequence

from driftq.model.dead_letter import HandlerDeadLetter, HandlerKind
from driftq.model.time import parse_rfc3339, rfc3339

KEPT = {"retention.ms": "-1", "cleanup.policy": "delete"}
"""How a dead-letter topic is created: Kafka's own default would remove dead letters after a week."""
_PREFIX = "dlq."
VALUE_OMITTED = "dlq.value_omitted"
"""`true` where Kafka would not take the value: it is where the handler keeps it."""

Headers = list[tuple[str, bytes]]


def dead_letter_headers(dead_letter: HandlerDeadLetter, *, value_omitted: bool = False) -> Headers:
    """Every fact but key and value; those that are absent have no header."""
    facts: dict[str, str | int | None] = {
        "id": dead_letter.id,
        "kind": dead_letter.kind.value,
        "group": dead_letter.handler,
        "original_topic": dead_letter.topic,
        "original_partition": dead_letter.partition,
        "original_offset": dead_letter.offset,
        "stage": dead_letter.stage,
        "last_error": dead_letter.error,
        "reason": dead_letter.reason,
        "attempts": dead_letter.attempts,
        "at": rfc3339(dead_letter.at),
        "event_id": dead_letter.event_id,
        "identity": dead_letter.identity or None,
        "redrives": dead_letter.redrives or None,
    }
    headers = [(f"{_PREFIX}{name}", str(fact).encode()) for name, fact in facts.items() if fact is not None]
    return [*headers, (VALUE_OMITTED, b"true")] if value_omitted else headers


def read_dead_letter(
    key: bytes | None, value: bytes | None, headers: Sequence[tuple[str, bytes | None]] | None
) -> HandlerDeadLetter | None:
    """The dead letter in a message; None where the message is none, as one that another program wrote."""
    facts = {
        name.removeprefix(_PREFIX): (content or b"").decode(errors="replace")
        for name, content in headers or ()
        if name.startswith(_PREFIX)
    }
    try:
        return HandlerDeadLetter(
            kind=HandlerKind(facts["kind"]),
            handler=facts["group"],
            topic=facts["original_topic"],
            partition=int(facts["original_partition"]),
            offset=int(facts["original_offset"]),
            stage=facts["stage"],
            error=facts["last_error"],
            reason=facts["reason"],
            attempts=int(facts["attempts"]),
            at=parse_rfc3339(facts["at"]),
            key=_text(key) or "",
            value=_text(value),
            event_id=facts.get("event_id"),
            identity=facts.get("identity", ""),
            redrives=int(facts.get("redrives", 0)),
        )
    except (KeyError, ValueError):
        return None


def _text(octets: bytes | None) -> str | None:
    return None if octets is None else octets.decode(errors="backslashreplace")
