"""Rows that the server refuses for good are parked with their error, and hold up only their own key."""

from __future__ import annotations

import json

import pytest

import driftq
from driftq import outbox
from tests.conformance.outbox.conftest import Site


@pytest.mark.clause("J21")
def test_a_refused_row_is_parked_and_holds_up_only_its_key(site: Site) -> None:
    with site.connect() as connection:
        outbox.produce(connection, "nowhere", "1", key="a")
        outbox.produce(connection, "orders", "2", key="a")
        outbox.produce(connection, "nowhere", "3", key="a")
        outbox.produce(connection, "orders", "4")
        connection.commit()
    assert site.relay() == 2
    assert site.values("orders") == ["2", "4"]
    first, behind = site.admin.parked()
    assert "TopicNotFound" in first.error
    assert behind.behind == first.id
    status = site.admin.status()
    assert (status.waiting, status.parked) == (0, 2)


@pytest.mark.clause("J21")
def test_a_retried_row_goes_before_those_that_waited_for_it(site: Site) -> None:
    with site.connect() as connection:
        outbox.produce(connection, "late", "1", key="a")
        connection.commit()
        site.relay()
        outbox.produce(connection, "late", "2", key="a")
        connection.commit()
        site.relay()
    site.broker.create_topic("late")
    with site.connect() as connection:
        outbox.produce(connection, "late", "3", key="a")
        outbox.produce(connection, "late", "other", key="b")
        connection.commit()
    [first, _] = site.admin.parked()
    assert site.admin.retry(first.id) == 2
    assert site.relay() == 4
    assert [value for value in site.values("late") if value != "other"] == ["1", "2", "3"]
    assert site.admin.parked() == []


@pytest.mark.clause("J21")
def test_one_bad_row_of_a_batch_does_not_take_the_others_with_it(site: Site) -> None:
    with site.connect() as connection:
        for number in range(10):
            deadline = "2001-01-01T00:00:00Z" if number == 4 else "2999-01-01T00:00:00Z"
            outbox.produce(connection, "orders", str(number), deadline=deadline)
        connection.commit()
    assert site.relay() == 9
    assert site.values("orders") == [str(number) for number in range(10) if number != 4]
    [parked] = site.admin.parked()
    assert "deadline" in parked.error


@pytest.mark.clause("J21")
def test_an_event_that_conflicts_is_parked_with_the_conflict(site: Site) -> None:
    def event(number: int) -> driftq.Event:
        return driftq.Event(
            event_id=f"e-{number}",
            aggregate_type="order",
            aggregate_id=f"o-{number % 2}",
            event_type="order.changed",
            kind="order",
            payload={},
        )

    with site.connect() as connection:
        outbox.append(connection, event(1), expected_seq=5)
        outbox.append(connection, event(2), expected_seq=0)
        outbox.append(connection, event(3))
        connection.commit()
    assert site.relay() == 1
    store = driftq.EventStore(site.broker)
    assert [stored.event_id for stored in store.log()] == ["e-2"]
    conflict, behind = site.admin.parked()
    assert "SequenceConflict" in conflict.error
    assert behind.behind == conflict.id


@pytest.mark.clause("J21")
def test_a_job_whose_answer_was_lost_days_ago_is_parked_and_not_doubled(site: Site) -> None:
    with site.connect() as connection:
        outbox.enqueue(connection, site.send, to="ada")
        connection.commit()
        store = site.outbox()._store
        assert store.take("an earlier relay")
        assert len(store.advance()) == 1
        store.release()
        store.close()
        week_ms = 7 * 24 * 3_600_000
        connection.execute(f"UPDATE driftq_outbox SET first_sent_at = first_sent_at - {week_ms}")
        connection.commit()
    assert site.relay() == 0
    assert site.sent_to() == []
    [parked] = site.admin.parked()
    assert "6 days" in parked.error
    assert site.admin.retry() == 1
    assert site.relay() == 1
    assert site.sent_to() == ["ada"]


def test_the_form_of_a_row_in_the_table_is_the_servers(site: Site) -> None:
    """Other languages may write rows: the table is an interface."""
    body = json.dumps({"queue": "mail", "task": "send", "payload": {"to": "ada"}, "idempotency_key": "k-1"})
    with site.connect() as connection:
        connection.execute(
            "INSERT INTO driftq_outbox (row_key, kind, target, key, body) "
            f"VALUES ('k-1', 'job', 'mail', '', '{body}')"
        )
        connection.commit()
    assert site.relay() == 1
    assert site.sent_to() == ["ada"]
