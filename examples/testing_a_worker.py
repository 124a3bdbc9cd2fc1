"""Test your own worker against a broker in memory whose clock the test moves.

The fixture `driftq_broker` comes with DriftQ's pytest plugin. Leases and retries take no real time, so a
test of a retry after a minute runs in milliseconds.

    pytest examples/testing_a_worker.py
"""

import driftq
from driftq.testing.embedded import VirtualBroker


def send_reminders(client: driftq.Client) -> list[str]:
    """The code under test: sends the reminders that are due."""
    sent = []
    for job in client.jobs.claim(["reminders"], owner="test", limit=10):
        sent.append(job.payload["to"])
        client.jobs.complete(job)
    return sent


def test_a_reminder_is_sent_after_an_hour(driftq_broker: VirtualBroker) -> None:
    driftq_broker.jobs.enqueue("reminders", "remind", {"to": "ada"}, delay_s=3_600)
    assert send_reminders(driftq_broker) == []
    driftq_broker.advance(ms=3_600_000)
    assert send_reminders(driftq_broker) == ["ada"]


def test_a_message_is_delivered_again_when_its_lease_ends(driftq_broker: VirtualBroker) -> None:
    driftq_broker.create_topic("orders")
    driftq_broker.produce("orders", "two coffees")
    with driftq_broker.consume("orders", group="billing", lease_ms=30_000) as deliveries:
        assert next(deliveries).attempt == 1
        driftq_broker.advance(ms=30_000)
        assert next(deliveries).attempt == 2
