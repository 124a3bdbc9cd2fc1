"""What may be stored: the fields of an event, and each way in which one can be wrong."""

import datetime as dt
import json
import math
from typing import Any

import pytest

from driftq.errors import InvalidArgument
from driftq.eventstore.options import AllocatorMode
from driftq.model import Operation
from driftq.model.time import microseconds, utc
from driftq.sql import KEY_BYTES_MAX
from tests.unit.eventstore.making import NOW, a_draft


@pytest.mark.clause("S1")
def test_kind_is_kept_in_the_metadata() -> None:
    draft = a_draft(kind="command", metadata={"by": "me"})
    assert json.loads(draft.metadata) == {"by": "me", "kind": "command"}
    inside = a_draft(kind=None, metadata={"by": "me", "kind": "command"})
    assert (inside.metadata, inside.content_hash) == (draft.metadata, draft.content_hash)
    assert a_draft(kind="command", metadata={"kind": "command"}).content_hash == draft.content_hash


@pytest.mark.clause("S1")
@pytest.mark.parametrize(
    ("field", "wrong"),
    [
        ("kind", {"kind": "command", "metadata": {"kind": "event"}}),
        ("kind", {"kind": None}),
        ("kind", {"kind": ""}),
        ("metadata.kind", {"kind": None, "metadata": {"kind": 7}}),
        ("event_id", {"event_id": ""}),
        ("event_type", {"event_type": ""}),
        ("event_id", {"event_id": "a\0b"}),
        ("aggregate_id", {"aggregate_id": "\0"}),
        ("aggregate_type", {"aggregate_type": "\ud800"}),
        ("aggregate_id", {"aggregate_id": "ä" * KEY_BYTES_MAX}),
        ("payload", {"payload": {"x": math.nan}}),
        ("payload", {"payload": {"x": {1, 2}}}),
        ("payload", {"payload": "\udfff"}),
        ("occurred_at", {"occurred_at": dt.datetime(2026, 1, 1)}),  # noqa: DTZ001
        ("occurred_at", {"occurred_at": dt.datetime.min.replace(tzinfo=dt.timezone(dt.timedelta(hours=5)))}),
    ],
)
def test_what_cannot_be_stored_is_refused_and_named(field: str, wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgument) as refused:
        a_draft(**{"event_id": "e1", **wrong})
    assert refused.value.field == field


@pytest.mark.clause("S1")
def test_a_payload_nested_beyond_measure_is_refused() -> None:
    deep: list[object] = []
    for _ in range(100_000):
        deep = [deep]
    with pytest.raises(InvalidArgument, match="deep"):
        a_draft(payload=deep)


@pytest.mark.clause("S3")
@pytest.mark.parametrize("operation", [Operation.UPDATE, Operation.DELETE])
def test_update_and_delete_must_say_what_they_expect(operation: Operation) -> None:
    with pytest.raises(InvalidArgument) as refused:
        a_draft(operation=operation)
    assert refused.value.field == "expected_seq"


@pytest.mark.clause("S3")
def test_an_expected_sequence_below_zero_is_refused() -> None:
    with pytest.raises(InvalidArgument):
        a_draft(expected_seq=-1)


@pytest.mark.clause("S7")
@pytest.mark.parametrize("mode", [mode for mode in AllocatorMode if mode is not AllocatorMode.OFF])
def test_only_without_an_allocator_may_the_caller_number(mode: AllocatorMode) -> None:
    with pytest.raises(InvalidArgument) as refused:
        a_draft(mode=mode, sequence_number=1)
    assert refused.value.field == "sequence_number"


@pytest.mark.clause("S7")
@pytest.mark.parametrize("number", [None, 0, -1, 2**53])
def test_without_an_allocator_the_caller_must_number(number: int | None) -> None:
    with pytest.raises(InvalidArgument) as refused:
        a_draft(mode=AllocatorMode.OFF, sequence_number=number)
    assert refused.value.field == "sequence_number"


@pytest.mark.clause("S1")
def test_instants_keep_their_microseconds_and_lose_their_zone() -> None:
    berlin = NOW.astimezone(dt.timezone(dt.timedelta(hours=1)))
    assert microseconds(berlin) == microseconds(NOW)
    assert utc(microseconds(berlin)) == NOW
    assert a_draft().occurred_at_us == microseconds(NOW)
