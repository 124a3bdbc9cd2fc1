"""Events for tests, short to write."""

import datetime as dt
from typing import Any

from driftq.eventstore.append.draft import Draft, draft
from driftq.eventstore.options import AllocatorMode
from driftq.eventstore.outcome import Append
from driftq.model import Event, Operation
from driftq.model.time import microseconds

NOW = dt.datetime(2026, 1, 8, 12, 0, 0, 123456, tzinfo=dt.UTC)


def event(event_id: str = "e1", **fields: Any) -> Event:
    return Event(
        **{
            "event_id": event_id,
            "aggregate_type": "order",
            "aggregate_id": "o-1",
            "event_type": "OrderPlaced",
            "kind": "event",
            "payload": {"total": 3},
            **fields,
        }
    )


def command(event_id: str = "e1", *, expected_seq: int | None = None, **fields: Any) -> Append:
    return Append(event(event_id, **fields), expected_seq)


def a_draft(
    event_id: str = "e1",
    *,
    mode: AllocatorMode = AllocatorMode.SQLITE,
    expected_seq: int | None = None,
    **fields: Any,
) -> Draft:
    wanted = command(event_id, expected_seq=expected_seq, **fields)
    return draft(wanted, wanted.event.aggregate, 0, mode=mode, now_us=microseconds(NOW))


def update(event_id: str, expected_seq: int, **fields: Any) -> Append:
    return command(
        event_id, expected_seq=expected_seq, operation=Operation.UPDATE, **{"kind": "command", **fields}
    )
