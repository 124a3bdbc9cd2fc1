"""A target that is away is told as such, and nothing of a batch is left behind."""

import contextlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from driftq.errors import DatabaseUnavailable, ReadModelUnavailable
from driftq.sinks import Change, ParquetSink, PostgresSink, StagedCommit
from driftq.sinks.arrow_rows import CHANGES, as_table
from driftq.sql import Transaction
from driftq.testing.sinks.cast import ORDERS, batch, change, dead_letter, seen, write
from tests.conformance.sinks.staging import leftovers
from tests.services_postgres import PostgresServer


@pytest.mark.clause("V3", "V3c")
def test_postgres_goes_away_and_comes_back(private_postgres: PostgresServer) -> None:
    model = PostgresSink(private_postgres.url).connect("orders")
    writer_epoch = model.take_over()
    model.apply(batch(change(1), upto=1), writer_epoch)
    private_postgres.stop()
    for _ in range(2):  # On a connection that breaks, and where none can be made.
        with pytest.raises(DatabaseUnavailable):
            model.apply(batch(change(2), upto=2), writer_epoch)
    private_postgres.start()
    model.apply(batch(change(2), upto=2), writer_epoch)
    assert seen(model) == {("order", "o-1"): (2, {"at": 2})}
    model.close()


@pytest.mark.clause("V3")
def test_a_row_that_the_database_refuses_takes_its_batch_with_it(postgres_database_url: str) -> None:
    model = PostgresSink(postgres_database_url).connect("refusing")
    writer_epoch = model.take_over()
    with pytest.raises(Exception, match="json"):
        model.apply(batch(change(1), Change("order", "o-2", 1, "e", "{no json"), upto=2), writer_epoch)
    assert seen(model) == {}
    assert model.positions() == {}
    model.close()


@pytest.mark.clause("V3")
def test_a_folder_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    (tmp_path / "in_the_way").write_text("a file where a folder should be")
    with pytest.raises(ReadModelUnavailable, match="in_the_way"):
        ParquetSink(os.fspath(tmp_path / "in_the_way")).connect("orders").take_over()


@pytest.mark.clause("V10", "V3", "V3c")
def test_a_crash_of_postgres_empties_staging_and_the_batch_is_staged_again(
    private_postgres: PostgresServer,
) -> None:
    model = PostgresSink(private_postgres.url).connect("crashed")
    writer_epoch = model.take_over()
    model.apply(batch(change(1, of="o-3")), writer_epoch)
    staged = model.open_batch(writer_epoch)
    attempt = staged.writer.begin(task=0, attempt=1)
    attempt.write_changes(as_table([change(1)], CHANGES))
    whole = StagedCommit(reports=[attempt.finish()], positions={ORDERS: 5})
    attempt.close()
    cut_off = staged.writer.begin(task=1, attempt=2)
    cut_off.write_changes(as_table([change(1, of="o-2")], CHANGES))
    private_postgres.stop()
    with pytest.raises(DatabaseUnavailable):
        cut_off.finish()
    cut_off.close()
    late = staged.writer.begin(task=1, attempt=3)
    with pytest.raises(DatabaseUnavailable):
        late.write_changes(as_table([change(1, of="o-2")], CHANGES))
    late.close()
    with pytest.raises(DatabaseUnavailable):
        staged.commit(whole)
    private_postgres.start()
    with pytest.raises(ReadModelUnavailable, match="staged 1 rows, and 0 are there"):
        staged.commit(whole)
    assert model.positions() == {}
    again = model.open_batch(writer_epoch)
    attempt = again.writer.begin(task=0, attempt=4)
    attempt.write_changes(as_table([change(1)], CHANGES))
    again.commit(StagedCommit(reports=[attempt.finish()], positions={ORDERS: 5}))
    attempt.close()
    assert seen(model) == {("order", "o-1"): (1, {"at": 1}), ("order", "o-3"): (1, {"at": 1})}
    assert model.positions() == {ORDERS: 5}
    assert leftovers(model) == 0
    model.close()


@pytest.mark.clause("V10", "V3", "V3c")
def test_a_crash_of_postgres_takes_nothing_of_the_first_rows(private_postgres: PostgresServer) -> None:
    """They are staged with a journal, because their table becomes that of the read model."""
    model = PostgresSink(private_postgres.url).connect("crashed_first")
    staged = model.open_batch(model.take_over())
    whole = StagedCommit(reports=[write(staged, change(1))], positions={ORDERS: 5})
    private_postgres.stop()
    with pytest.raises(DatabaseUnavailable):
        staged.commit(whole)
    private_postgres.start()
    staged.commit(whole)
    model.close()
    private_postgres.stop()
    private_postgres.start()
    model = PostgresSink(private_postgres.url).connect("crashed_first")
    assert seen(model) == {("order", "o-1"): (1, {"at": 1})}
    assert model.positions() == {ORDERS: 5}
    model.close()


@pytest.mark.clause("V10", "Z6")
@pytest.mark.parametrize("has_rows", [False, True], ids=["first rows", "later rows"])
def test_a_commit_that_is_cut_off_anywhere_changes_nothing(
    postgres_sink: PostgresSink, monkeypatch: pytest.MonkeyPatch, *, has_rows: bool
) -> None:
    """The connection breaks before each statement of the transaction in turn, and before its end."""
    model = postgres_sink.connect("cut")
    writer_epoch = model.take_over()
    before = {("order", "o-9"): (1, {"at": 1})} if has_rows else {}
    if has_rows:
        model.apply(batch(change(1, of="o-9")), writer_epoch)
    cuts = 0
    while True:
        staged = model.open_batch(writer_epoch)
        attempt = staged.writer.begin(task=0, attempt=cuts)
        attempt.write_changes(as_table([change(2)], CHANGES))
        attempt.write_dead_letters([dead_letter(1)])
        whole = StagedCommit(reports=[attempt.finish()], positions={ORDERS: 5})
        attempt.close()
        with monkeypatch.context() as patched:
            countdown = Countdown(cuts)
            patched.setattr(Transaction, "_execute", countdown.before(Transaction._execute))
            patched.setattr(Transaction, "require_own_process", countdown.before(lambda _: None))
            with contextlib.suppress(BrokenConnectionForTest):
                staged.commit(whole)
                break
        assert seen(model) == before
        assert model.positions() == {}
        assert list(model.dead_letters()) == []
        cuts += 1
    assert cuts > 8
    assert seen(model) == {("order", "o-1"): (2, {"at": 2}), **before}
    assert model.positions() == {ORDERS: 5}
    assert leftovers(model) == 0
    model.close()


class BrokenConnectionForTest(Exception):
    pass


class Countdown:
    """Lets so many calls pass, and fails the next one."""

    def __init__(self, calls: int) -> None:
        self._left = calls

    def before(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def counted(*arguments: Any, **named: Any) -> Any:
            if self._left == 0:
                raise BrokenConnectionForTest
            self._left -= 1
            return function(*arguments, **named)

        return counted
