"""A committed row becomes one job, message or event; a rolled-back one becomes none."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest

import driftq
from driftq import outbox
from driftq.errors import OutboxMissing
from tests.conformance.outbox.conftest import Site


def event(number: int, **fields: Any) -> driftq.Event:
    return driftq.Event(
        event_id=f"e-{number}",
        aggregate_type="order",
        aggregate_id="o-1",
        event_type="order.changed",
        kind="order",
        payload={"n": number},
        **fields,
    )


@pytest.mark.clause("J21")
def test_committed_rows_become_jobs_messages_and_events(site: Site) -> None:
    with site.connect() as connection:
        outbox.enqueue(connection, site.send, "a@b.c", priority=9, delay=3_600)
        outbox.produce(connection, "orders", {"id": 1}, key="o-1", run_id="r-1")
        outbox.append(connection, event(1), expected_seq=0)
        connection.commit()
    assert site.relay() == 3
    [job] = site.broker.jobs.list(queue="mail")
    assert (job.task, job.payload, job.priority, job.state) == ("send", {"to": "a@b.c"}, 9, "scheduled")
    assert job.max_retries == 7
    [message] = site.broker.records("orders")
    assert (message.value, message.key) == ('{"id":1}', "o-1")
    assert message.envelope is not None
    assert message.envelope.run_id == "r-1"
    [stored] = driftq.EventStore(site.broker).read("order", "o-1")
    assert (stored.event_id, stored.sequence_number, stored.payload) == ("e-1", 1, {"n": 1})
    assert site.admin.status().waiting == 0
    assert site.relay() == 0


@pytest.mark.clause("J21", "J19", "P8")
def test_rows_carry_headers_metadata_and_the_jobs_to_wait_for(site: Site) -> None:
    first = site.send.enqueue("first")
    with site.connect() as connection:
        outbox.produce(connection, "orders", "x", headers={"origin": "shop"})
        outbox.enqueue(connection, site.send, "second", after=[first], metadata={"request": "r-1"})
        connection.commit()
    assert site.relay() == 2
    [message] = site.broker.records("orders")
    assert message.headers == {"origin": "shop"}
    second = site.broker.jobs.list(queue="mail")[-1]
    assert (second.state, second.after, second.metadata) == ("blocked", [first.job_id], {"request": "r-1"})


@pytest.mark.clause("J21")
def test_rolled_back_rows_become_nothing(site: Site) -> None:
    with site.connect() as connection:
        outbox.produce(connection, "orders", "lost")
        outbox.enqueue(connection, site.send, to="lost")
        connection.rollback()
        outbox.produce(connection, "orders", "kept")
        connection.commit()
    assert site.relay() == 1
    assert (site.values("orders"), site.sent_to()) == (["kept"], [])


@pytest.mark.clause("J21")
def test_the_rows_of_a_transaction_keep_their_order(site: Site) -> None:
    with site.connect() as connection:
        for number in range(50):
            outbox.produce(connection, "orders", str(number), key="o-1")
            outbox.enqueue(connection, site.send, to=f"{number}")
        connection.commit()
    assert site.relay(batch_rows=7) == 100
    assert site.values("orders") == [str(number) for number in range(50)]
    assert site.sent_to() == [str(number) for number in range(50)]


@pytest.mark.clause("J21")
def test_what_was_sent_and_not_recorded_is_sent_again_to_no_effect(site: Site) -> None:
    """As a relay does that is killed between the two."""
    with site.connect() as connection:
        for number in range(5):
            outbox.produce(connection, "orders", f"m-{number}")
            outbox.enqueue(connection, site.send, to=f"j-{number}")
            outbox.append(connection, event(number))
        connection.commit()
    doomed = site.outbox()
    advance = doomed._store.advance

    def cut_off(**given: Any) -> list[Any]:
        if given["sent"]:
            raise KeyboardInterrupt
        return advance(**given)

    doomed._store.advance = cut_off  # type: ignore[method-assign]
    with pytest.raises(KeyboardInterrupt):
        doomed.run(once=True)
    assert site.admin.status().waiting == 15
    assert site.relay() == 15
    assert site.values("orders") == [f"m-{number}" for number in range(5)]
    assert site.sent_to() == [f"j-{number}" for number in range(5)]
    assert len(list(driftq.EventStore(site.broker).read("order", "o-1"))) == 5


def test_a_database_without_an_outbox_says_what_to_do(site: Site) -> None:
    with site.connect() as connection:
        connection.execute("DROP TABLE driftq_outbox")
        connection.commit()
    with pytest.raises(OutboxMissing, match="driftq outbox init"):
        site.relay()


def test_tables_are_made_in_the_callers_transaction(site: Site) -> None:
    with site.connect() as connection:
        connection.execute("DROP TABLE driftq_outbox")
        outbox.create(connection)
        connection.rollback()
        outbox.produce(connection, "orders", "old table")
        connection.commit()
        outbox.create(connection)
        connection.commit()
    assert site.relay() == 1
    assert "driftq_outbox_relay" in outbox.ddl("sqlite" if site.engine == "sqlite" else "postgresql")


@pytest.mark.parametrize(
    "write",
    [
        lambda c, site: outbox.produce(c, "orders", {"bad": object()}),
        lambda c, site: outbox.produce(c, "orders", "x", target_topic="other"),
        lambda c, site: outbox.enqueue(c, site.send, to=object()),
        lambda c, site: outbox.enqueue(c, site.send, to="x", run_at=dt.datetime(2030, 1, 1)),  # noqa: DTZ001
    ],
)
def test_what_no_server_takes_is_refused_at_once(site: Site, write: Any) -> None:
    with site.connect() as connection, pytest.raises((driftq.InvalidArgument, TypeError)):
        write(connection, site)
    with site.connect() as connection, pytest.raises(TypeError):
        outbox.enqueue(connection, site.send, subject="no such argument")
    assert site.admin.status().waiting == 0
