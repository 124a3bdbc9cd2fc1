"""On PostgreSQL transactions end in another order than their ids say, and none may be passed over."""

from __future__ import annotations

import psycopg
import pytest

from driftq import outbox
from tests.conformance.outbox.conftest import Site


@pytest.mark.clause("J21")
def test_transactions_that_commit_in_reverse_order_are_all_sent(postgres_site: Site) -> None:
    site = postgres_site
    open_ones = [psycopg.connect(site.url) for _ in range(4)]
    for number, connection in enumerate(open_ones):
        outbox.produce(connection, "orders", f"{number}a", key="k")
    for number, connection in enumerate(open_ones):
        outbox.produce(connection, "orders", f"{number}b", key="k")
    for connection in reversed(open_ones):
        connection.commit()
        site.relay()
        connection.close()
    assert site.values("orders") == ["3a", "3b", "2a", "2b", "1a", "1b", "0a", "0b"]


@pytest.mark.clause("J21")
def test_a_long_transaction_holds_nobody_up_and_is_sent_when_it_commits(postgres_site: Site) -> None:
    site = postgres_site
    with psycopg.connect(site.url) as long, psycopg.connect(site.url) as quick:
        outbox.produce(long, "orders", "long 1")
        for number in range(3):
            outbox.produce(quick, "orders", f"quick {number}")
            quick.commit()
            assert site.relay() == 1
        assert site.values("orders") == ["quick 0", "quick 1", "quick 2"]
        outbox.produce(long, "orders", "long 2")
        long.commit()
    assert site.relay() == 2
    assert site.values("orders")[3:] == ["long 1", "long 2"]


@pytest.mark.clause("J21")
def test_a_transaction_that_follows_another_is_sent_after_it_whatever_else_runs(postgres_site: Site) -> None:
    """The second has the older transaction id, and a third, older still, never ends meanwhile."""
    site = postgres_site
    third, second, first = (psycopg.connect(site.url) for _ in range(3))
    third.execute("SELECT pg_current_xact_id()")
    second.execute("SELECT pg_current_xact_id()")
    outbox.produce(first, "orders", "first", key="k")
    first.commit()
    outbox.produce(second, "orders", "second", key="k")
    second.commit()
    assert site.relay() == 2
    assert site.values("orders") == ["first", "second"]
    for connection in (first, second, third):
        connection.close()


@pytest.mark.clause("J21")
def test_a_savepoint_that_is_rolled_back_takes_its_rows_with_it(postgres_site: Site) -> None:
    site = postgres_site
    with psycopg.connect(site.url) as connection:
        outbox.produce(connection, "orders", "1")
        with connection.transaction() as inner:
            outbox.produce(connection, "orders", "lost")
            raise psycopg.Rollback(inner)
        outbox.produce(connection, "orders", "2")
    assert site.relay() == 2
    assert site.values("orders") == ["1", "2"]
