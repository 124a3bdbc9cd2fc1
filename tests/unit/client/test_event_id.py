"""Ids that the client makes for events."""

import time
from uuid import RFC_4122, UUID

import driftq


def test_an_id_is_a_uuid_of_version_7_and_begins_with_its_time() -> None:
    before = time.time_ns() // 1_000_000
    made = UUID(driftq.new_event_id())
    after = time.time_ns() // 1_000_000
    assert (made.version, made.variant) == (7, RFC_4122)
    assert before <= made.int >> 80 <= after


def test_ids_differ_and_later_ones_sort_after_earlier_ones() -> None:
    assert len({driftq.new_event_id() for _ in range(10_000)}) == 10_000
    first = driftq.new_event_id()
    time.sleep(0.002)  # Ids of one millisecond have no order.
    assert first < driftq.new_event_id()
