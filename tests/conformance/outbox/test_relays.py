"""One relay at a time: a second waits, takes over, and the first can change nothing more."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

import driftq
from driftq import outbox
from driftq.errors import OutboxRelayReplaced
from driftq.outbox.reporting import name_of
from driftq.outbox.sending import RowSender, Sent
from driftq.outbox.store import OutboxStore
from tests.conformance.outbox.conftest import Site
from tests.support.waiting import wait_until


@pytest.mark.clause("J21")
def test_a_second_relay_waits_and_takes_over(site: Site) -> None:
    first, second = site.outbox(owner="first"), site.outbox(owner="second")
    threads = [threading.Thread(target=relay.run) for relay in (first, second)]
    threads[0].start()
    wait_until("the first relays", lambda: site.admin.status().owner == "first", within_s=20)
    threads[1].start()
    with site.connect() as connection:
        outbox.produce(connection, "orders", "1")
        connection.commit()
        wait_until("the row is sent", lambda: site.values("orders") == ["1"], within_s=20)
        assert site.admin.status().owner == "first"
        first.stop()
        threads[0].join(20)
        outbox.produce(connection, "orders", "2")
        connection.commit()
    wait_until("the second has taken over", lambda: site.values("orders") == ["1", "2"], within_s=20)
    assert site.admin.status().owner == "second"
    second.stop()
    threads[1].join(20)
    assert not site.admin.status().running


@pytest.mark.clause("J21")
def test_a_relay_that_was_cut_off_can_change_nothing_more(site: Site) -> None:
    with site.connect() as connection:
        outbox.produce(connection, "orders", "1")
        outbox.produce(connection, "orders", "2")
        connection.commit()
    paused = OutboxStore(site.url, lease_ms=1)
    assert paused.take("paused")
    rows = paused.advance(limit=1)
    newer = OutboxStore(site.url)
    wait_until("the lease is over", lambda: newer.take("newer"), within_s=20)
    for change in (
        lambda: paused.advance(sent=[row.id for row in rows]),
        paused.keep,
        paused.renew_identity,
    ):
        with pytest.raises(OutboxRelayReplaced):
            change()
    assert [row.position for row in newer.advance()] == [1, 2]
    newer.release()
    for store in (paused, newer):
        store.close()
    assert site.relay() == 2
    assert site.values("orders") == ["1", "2"]


@pytest.mark.clause("J21")
def test_a_message_is_recognised_when_its_key_is_long_forgotten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A relay may be down for longer than the server remembers idempotency keys."""
    monkeypatch.setenv("DRIFTQ_BROKER_IDEMPOTENCY_TTL_MS", "200")
    with driftq.open(tmp_path / "data") as broker:
        broker.create_topic("orders")
        broker.create_topic("probes")
        site = Site("sqlite", f"sqlite:///{tmp_path / 'shop.db'}", broker)
        with site.connect() as connection:
            outbox.produce(connection, "orders", "once")
            connection.commit()
        killed = OutboxStore(site.url)
        assert killed.take("killed")
        rows = killed.advance()
        sending = RowSender(broker.awaited, killed).send(rows, {}, Sent(), now_ms=killed.now_ms())
        broker.thread.run(sending)
        killed.release()
        killed.close()
        first = broker.produce("probes", "p", idempotency_key="k")

        def is_forgotten() -> bool:
            return broker.produce("probes", "p", idempotency_key="k").offset > first.offset

        wait_until("keys of that time are forgotten", is_forgotten, within_s=30)
        assert site.relay() == 1
        assert site.values("orders") == ["once"]
        site.admin.close()


@pytest.mark.clause("J21")
def test_a_database_restored_from_a_backup_loses_no_new_row(site: Site) -> None:
    """The server has positions that the restored outbox gives out again."""
    with site.connect() as connection:
        for number in range(3):
            outbox.produce(connection, "orders", f"before {number}")
        connection.commit()
        assert site.relay() == 3
        connection.execute("UPDATE driftq_outbox_relay SET last_position = 0")
        outbox.produce(connection, "orders", "after")
        connection.commit()
    assert site.relay() == 1
    assert site.values("orders") == ["before 0", "before 1", "before 2", "after"]


@pytest.mark.clause("J21", "O1")
def test_a_relay_reports_what_it_does(site: Site) -> None:
    with site.connect() as connection:
        outbox.produce(connection, "orders", "x")
        outbox.produce(connection, "nowhere", "x")
        connection.commit()
    assert site.relay(name="outbox-of-the-shop", owner="relay-1") == 1
    [report] = site.broker.pipelines.list()
    assert (report.name, report.kind, report.state) == ("outbox-of-the-shop", "outbox", "ended")
    assert (report.rows, report.lag, report.dead_letters, report.driver) == (1, 0, 1, "relay-1")
    assert name_of("sqlite:////var/lib/shop.db") == "outbox-shop"
    assert name_of("postgresql://shop@db:5432/orders?sslmode=require") == "outbox-orders"
