"""Append to an aggregate only if it has not changed: expected_seq, a conflict, and the second try.

Two clerks read the same order and both want to change it. The event store accepts the first append and
refuses the second one with the current sequence number, so no change is lost.
"""

import tempfile

import driftq


def event(event_id: str, event_type: str) -> driftq.Event:
    return driftq.Event(
        event_id=event_id,
        aggregate_type="order",
        aggregate_id="order-7",
        event_type=event_type,
        kind="command",
        operation=driftq.Operation.APPEND,
        payload={},
    )


with tempfile.TemporaryDirectory() as folder, driftq.open(folder) as broker:
    store = driftq.EventStore(broker)
    store.append(event("order-7-opened", "order.opened"), expected_seq=0)

    paid = store.append(event("ada-1", "order.paid"), expected_seq=1)
    print(f"ada stores event {paid.sequence_number}")
    try:
        store.append(event("bob-1", "order.cancelled"), expected_seq=1)
    except driftq.SequenceConflict as conflict:
        print(f"bob expected event {conflict.expected_seq} to be the last, but that is {conflict.actual_seq}")
        unseen = [newer.event_type for newer in store.read("order", "order-7", from_seq=2)]
        print(f"bob reads {unseen} and decides again")
        store.append(event("bob-1", "order.refunded"), expected_seq=conflict.actual_seq)

    print([stored.event_type for stored in store.read("order", "order-7")])
