"""Segments: the same events give the same bytes, and come back as they were."""

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from driftq.errors import SegmentLost
from driftq.eventstore.seal.segment import SCHEMA, StoredEvent, decode_segment, encode_segment

TEXT = st.text(max_size=30)
US = st.integers(-62_000_000_000_000_000, 250_000_000_000_000_000)


def an_event(position: int, **fields: object) -> StoredEvent:
    event = StoredEvent(
        position=position,
        event_id=f"e{position}",
        aggregate_type="order",
        aggregate_id="o-1",
        sequence_number=position,
        event_type="OrderPlaced",
        kind="event",
        operation="append",
        occurred_at_us=1_767_873_600_123_456,
        payload='{"total":3}',
        metadata='{"kind":"event"}',
        schema_version="1",
        content_hash="00" * 32,
    )
    return msgspec.structs.replace(event, **fields)


@pytest.mark.clause("S8", "S9", "X7")
@settings(deadline=None)
@given(st.lists(st.tuples(TEXT, TEXT, TEXT, US), min_size=1, max_size=20), st.integers(1, 10**15))
def test_events_come_back_byte_for_byte(parts: list[tuple[str, str, str, int]], first: int) -> None:
    events = [
        an_event(first + place, aggregate_type=one, aggregate_id=two, event_id=three, occurred_at_us=at)
        for place, (one, two, three, at) in enumerate(parts)
    ]
    content = encode_segment(events)
    assert decode_segment(content, name="x") == events
    assert encode_segment(events) == content


@pytest.mark.clause("S8")
def test_a_segment_is_plain_parquet_that_any_reader_understands() -> None:
    file = pq.ParquetFile(pa.BufferReader(encode_segment([an_event(1), an_event(2)])))
    assert file.schema_arrow.names == SCHEMA.names
    assert file.schema_arrow.field("occurred_at").type == pa.timestamp("us", tz="UTC")
    column = file.metadata.row_group(0).column(0)
    assert column.compression == "ZSTD"
    assert "ARROW:schema" not in str(file.metadata.metadata)


@pytest.mark.clause("S8")
def test_positions_with_a_gap_are_no_segment() -> None:
    with pytest.raises(ValueError, match="not consecutive"):
        encode_segment([an_event(1), an_event(3)])


@pytest.mark.clause("S8")
def test_a_damaged_segment_is_said_to_be_lost() -> None:
    content = encode_segment([an_event(1)])
    with pytest.raises(SegmentLost):
        decode_segment(content[:-20], name="x")


@pytest.mark.clause("S8")
def test_a_segment_of_another_format_is_refused() -> None:
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table({"position": [1]}), sink)
    with pytest.raises(SegmentLost, match="format"):
        decode_segment(bytes(sink.getvalue()), name="x")
