"""A database that was open when the process forked: both sides write, and nothing is lost."""

import os
import threading
import uuid
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from driftq.errors import UsedAfterFork
from driftq.sql import Database, open_database
from driftq.sql.gate import Gate
from tests.support.forked import run_in_child

pytestmark = pytest.mark.clause("X5")
Reopen = Callable[[], Database]


@pytest.fixture(params=["sqlite", "postgres"])
def reopen(request: pytest.FixtureRequest, tmp_path: Path) -> Reopen:
    if request.param == "sqlite":
        return lambda: open_database(f"sqlite:///{tmp_path}/kept.db")
    url = request.getfixturevalue("postgres_database_url")
    return lambda: open_database(url)


@pytest.fixture
def database(reopen: Reopen) -> Iterator[Database]:
    opened = reopen()
    yield opened
    opened.close()


class Table:
    """Names, each of which can be there once."""

    def __init__(self, database: Database) -> None:
        self.name = f"names_{uuid.uuid4().hex[:12]}"
        with database.transaction() as transaction:
            transaction.connection.exec_driver_sql(f"CREATE TABLE {self.name} (name text PRIMARY KEY)")

    def add(self, database: Database, name: str) -> None:
        with database.transaction() as transaction:
            transaction.connection.exec_driver_sql(f"INSERT INTO {self.name} VALUES ('{name}')")

    def names(self, database: Database) -> set[str]:
        with database.snapshot() as snapshot:
            return {row[0] for row in snapshot.connection.exec_driver_sql(f"SELECT name FROM {self.name}")}


def test_threads_of_the_parent_write_while_it_forks(database: Database) -> None:
    """Wherever they are when it happens, no lock of theirs is taken along and no transaction is cut."""
    table = Table(database)
    stopping = threading.Event()
    written: list[list[str]] = [[], [], []]

    def write(number: int) -> None:
        while not stopping.is_set():
            name = f"parent-{number}-{len(written[number])}"
            table.add(database, name)
            written[number].append(name)
            table.names(database)

    threads = [threading.Thread(target=write, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    try:
        for number in range(10):
            run_in_child(partial(table.add, database, f"child-{number}"))
    finally:
        stopping.set()
        for thread in threads:
            thread.join()
    expected = {name for names in written for name in names} | {f"child-{number}" for number in range(10)}
    assert table.names(database) == expected
    assert all(written)


def test_what_a_child_writes_when_its_parent_has_closed_is_kept(reopen: Reopen) -> None:
    """A child that shared its parent's locks would go on writing to a journal that the parent has removed."""
    database = reopen()
    table = Table(database)
    table.add(database, "before")
    readable, writable = os.pipe()
    told, tell = os.pipe()
    child = os.fork()
    if not child:
        try:
            table.add(database, "beside the parent")
            os.write(tell, b"1")
            os.read(readable, 1)
            table.add(database, "after the parent")
        finally:
            os._exit(0)
    assert os.read(told, 1) == b"1"
    assert table.names(database) == {"before", "beside the parent"}
    database.close()
    os.write(writable, b"1")
    os.waitpid(child, 0)
    again = reopen()
    assert table.names(again) == {"before", "beside the parent", "after the parent"}
    again.close()


def test_a_transaction_is_finished_by_the_process_that_began_it(database: Database) -> None:
    table = Table(database)
    with database.transaction() as transaction:
        transaction.connection.exec_driver_sql(f"INSERT INTO {table.name} VALUES ('kept')")

        def refused() -> None:
            with pytest.raises(UsedAfterFork):
                transaction.require_own_process()

        run_in_child(refused)
    assert table.names(database) == {"kept"}
    run_in_child(lambda: table.add(database, "child"))
    assert table.names(database) == {"kept", "child"}


def test_a_gate_is_shut_when_the_last_one_has_left() -> None:
    gate = Gate()
    inside, leave = threading.Event(), threading.Event()

    def stay() -> None:
        with gate.inside():
            inside.set()
            leave.wait()

    def pass_through() -> None:
        with gate.inside():
            pass

    threading.Thread(target=stay).start()
    inside.wait()
    assert not gate.shut(timeout_s=0.01)
    leave.set()
    assert gate.shut(timeout_s=60)
    entered = threading.Thread(target=pass_through)
    entered.start()
    gate.open()
    entered.join()
    with gate.inside():
        assert not gate.shut(timeout_s=60), "whoever is inside would wait for itself"
