"""Follow the event log as a group, stop, and go on from the group's position.

The broker keeps the position of the group. An event is handled when the next one is asked for, so a follower
that stops after an event commits it first; the next follower of the group goes on behind it.
"""

import tempfile

import driftq


def paid(number: int) -> driftq.Event:
    return driftq.Event(
        event_id=f"order-{number}-paid",
        aggregate_type="order",
        aggregate_id=f"order-{number}",
        event_type="order.paid",
        kind="fact",
        payload={},
    )


with tempfile.TemporaryDirectory() as folder, driftq.open(folder) as broker:
    store = driftq.EventStore(broker)
    for number in (1, 2, 3):
        store.append(paid(number))

    with store.follow(group="mail") as events:
        print(f"first follower: {next(events).aggregate_id}")
        print(f"first follower: {next(events).aggregate_id}")
        events.commit()

    with store.follow(group="mail") as events:
        print(f"second follower: {next(events).aggregate_id}")
