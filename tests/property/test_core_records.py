"""Every record comes back from its bytes as it was."""

from array import array

import pytest
from hypothesis import given
from hypothesis import strategies as st

from driftq.core.records import (
    DeliveriesEnded,
    EndedDelivery,
    FreshBlock,
    GroupCreated,
    LeaseExtended,
    MessagesDelivered,
    MessagesSettled,
    MessagesStored,
    ReaderReported,
    Record,
    RedeliveredBlock,
    TopicCreated,
    decode_records,
    encode_record,
    unpack_array,
)
from driftq.model import TopicOptions

small = st.integers(0, 2**31)
time = st.integers(0, 2**53)
name = st.text(max_size=12)
counts = st.lists(st.integers(0, 2**32 - 1), max_size=8).map(lambda numbers: array("I", numbers).tobytes())
topic_options = st.builds(TopicOptions, st.none() | small, st.none() | small, st.booleans())

records: st.SearchStrategy[Record] = st.one_of(
    st.builds(TopicCreated, at=time, topic=small, name=name, partitions=small, options=topic_options),
    st.builds(
        MessagesStored,
        at=time,
        topic=small,
        first_offset=time,
        partition=st.integers(-1, 4095),
        partitions=st.binary(max_size=8),
        lengths=counts,
        sizes=counts,
        flags=st.binary(max_size=8),
        fingerprints=st.binary(max_size=16),
    ),
    st.builds(GroupCreated, at=time, topic=small, group=small, name=name, starts=st.lists(time, max_size=4)),
    st.builds(
        MessagesDelivered,
        at=time,
        group=small,
        partition=small,
        upto=time,
        fresh=st.lists(st.builds(FreshBlock, name, small, time, time, small), max_size=3),
        redelivered=st.lists(
            st.builds(RedeliveredBlock, name, small, st.lists(time, max_size=3)), max_size=3
        ),
    ),
    st.builds(MessagesSettled, at=time, group=small, partition=small, base=time, deltas=counts),
    st.builds(
        DeliveriesEnded,
        at=time,
        group=small,
        partition=small,
        cause=st.integers(1, 3),
        ended=st.lists(st.builds(EndedDelivery, time, time, name), max_size=3),
    ),
    st.builds(LeaseExtended, at=time, group=small, partition=small, ordinal=time, lease_ms=small),
    st.builds(
        ReaderReported,
        at=time,
        topic=small,
        reader=name,
        positions=st.lists(st.tuples(small, time), max_size=3),
    ),
)


@pytest.mark.clause("W2")
@given(st.lists(st.tuples(records, st.binary(max_size=20)), max_size=6))
def test_records_of_a_frame_round_trip_with_their_blobs(frame: list[tuple[Record, bytes]]) -> None:
    payload = b"".join(encode_record(record, blob_bytes=len(blob)) + blob for record, blob in frame)
    decoded = list(decode_records(memoryview(payload)))
    assert [record for record, _ in decoded] == [record for record, _ in frame]
    for (_, blob_at), (_, blob) in zip(decoded, frame, strict=True):
        assert payload[blob_at : blob_at + len(blob)] == blob


@given(st.lists(st.integers(0, 2**64 - 1)))
def test_arrays_round_trip(numbers: list[int]) -> None:
    assert unpack_array("Q", array("Q", numbers).tobytes()).tolist() == numbers
