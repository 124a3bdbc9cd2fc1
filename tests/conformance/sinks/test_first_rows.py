"""The first rows of a read model in PostgreSQL: their staging table replaces the empty one, or not."""

from collections.abc import Iterator

import pytest
from sqlalchemy import text

from driftq.sinks import PostgresSink, StagedBatch
from driftq.sinks.arrow_rows import CHANGES, as_table
from driftq.sinks.postgres import PostgresReadModel
from driftq.testing.sinks.cast import (
    ORDERS,
    batch,
    change,
    commit,
    dead_letter,
    out_of_order,
    sequences,
    write,
)
from tests.conformance.sinks.staging import leftovers

NAME = "first"


@pytest.fixture
def model(postgres_sink: PostgresSink) -> Iterator[PostgresReadModel]:
    model = postgres_sink.connect(NAME)
    yield model
    model.close()


@pytest.mark.clause("V1", "V4", "V10")
def test_the_table_that_tasks_wrote_becomes_the_read_model(model: PostgresReadModel) -> None:
    writer_epoch = model.take_over()
    run(model, "GRANT SELECT ON {schema}.first TO PUBLIC")
    staged = model.open_batch(writer_epoch)
    reports = [
        write(staged, change(2), change(1, of="o-2"), attempt=1, dead=[dead_letter(4)]),
        write(staged, change(3, of="o-3"), attempt=2, task=1, waiting=[out_of_order(9, of="o-3")]),
    ]
    written = table(model, staged_rows(staged))
    assert sequences(model) == {}
    commit(staged, *reports, upto=9)
    assert table(model, "first__rows") == written
    assert sequences(model) == {"o-1": 2, "o-2": 1, "o-3": 3}
    assert model.positions() == {ORDERS: 9}
    assert [dead.offset for dead in model.dead_letters()] == [4]
    assert leftovers(model) == 0
    assert "=r/" in str(
        scalar(
            model, "SELECT CAST(relacl AS text) FROM pg_class WHERE oid = CAST('{schema}.first' AS regclass)"
        )
    )
    for later in (4, 5):  # As any other read model from here on.
        again = model.open_batch(writer_epoch)
        commit(again, write(again, change(later), change(1, of="o-2"), attempt=later), upto=later + 10)
    model.apply(batch(change(6), upto=20), writer_epoch)
    assert sequences(model) == {"o-1": 6, "o-2": 1, "o-3": 3}
    assert table(model, "first__rows") == written


@pytest.mark.clause("V4", "V10")
def test_a_rebuild_and_its_swap_start_from_first_rows_as_well(model: PostgresReadModel) -> None:
    writer_epoch = model.take_over()
    for _ in range(2):
        first = model.open_batch(writer_epoch)
        commit(first, write(first, change(2), attempt=1), upto=5)
        beside = model.beside()
        epoch_beside = beside.take_over()
        fresh = beside.open_batch(epoch_beside)
        commit(fresh, write(fresh, change(4), change(1, of="o-2"), attempt=1), upto=8)
        model.swap(epoch_beside)
        assert sequences(model) == {"o-1": 4, "o-2": 1}
        writer_epoch = model.take_over()
    assert leftovers(model) == 0


@pytest.mark.clause("V10", "Z6")
def test_an_attempt_that_still_writes_keeps_its_rows_to_itself(model: PostgresReadModel) -> None:
    """It was repeated elsewhere; the commit does not wait for it."""
    staged = model.open_batch(model.take_over())
    slow = staged.writer.begin(task=0, attempt=1)
    slow.write_changes(as_table([change(8)], CHANGES))
    commit(staged, write(staged, change(7), attempt=2), upto=7)
    slow.finish()
    slow.close()
    assert sequences(model) == {"o-1": 7}
    writer_epoch = model.take_over()
    assert leftovers(model) == 0
    again = model.open_batch(writer_epoch)
    commit(again, write(again, change(9), attempt=3), upto=8)
    assert sequences(model) == {"o-1": 9}


@pytest.mark.clause("V10", "Z6")
def test_an_attempt_that_comes_late_finds_no_table(model: PostgresReadModel) -> None:
    staged = model.open_batch(model.take_over())
    commit(staged, write(staged, change(7), attempt=2), upto=7)
    late = staged.writer.begin(task=0, attempt=1)
    with pytest.raises(Exception, match="was dropped"):
        late.write_changes(as_table([change(8)], CHANGES))
    late.close()
    assert sequences(model) == {"o-1": 7}


@pytest.mark.clause("V2", "V10")
@pytest.mark.parametrize(
    ("done", "kept"),
    [
        ("CREATE INDEX mine ON {schema}.first__rows (event_id)", "to_regclass('{schema}.mine') IS NOT NULL"),
        ("ALTER TABLE {schema}.first__rows ADD CHECK (sequence_number > 0)", "relchecks > 0"),
        ("ALTER TABLE {schema}.first__rows ADD COLUMN note text", "relnatts > 5"),
        ("GRANT SELECT ON {schema}.first__rows TO PUBLIC", "relacl IS NOT NULL"),
        ("COMMENT ON TABLE {schema}.first__rows IS 'mine'", "obj_description(oid, 'pg_class') = 'mine'"),
        (
            "CREATE VIEW {schema}.mine AS SELECT event_id FROM {schema}.first__rows",
            "(SELECT count(*) FROM {schema}.mine) = 1",
        ),
        ("CREATE STATISTICS {schema}.mine ON event_id, aggregate_type FROM {schema}.first__rows", "true"),
        ("CREATE PUBLICATION mine FOR ALL TABLES", "true"),
    ],
)
def test_a_table_that_somebody_has_changed_stays(model: PostgresReadModel, done: str, kept: str) -> None:
    writer_epoch = model.take_over()
    run(model, done)
    before = table(model, "first__rows")
    staged = model.open_batch(writer_epoch)
    commit(staged, write(staged, change(2), attempt=1), upto=9)
    assert table(model, "first__rows") == before
    assert sequences(model) == {"o-1": 2}
    found = scalar(
        model, f"SELECT {kept} FROM pg_class WHERE oid = CAST('{{schema}}.first__rows' AS regclass)"
    )
    assert found is True
    run(model, "DROP PUBLICATION IF EXISTS mine")


@pytest.mark.clause("V10")
def test_rows_that_somebody_has_put_into_the_table_stay(model: PostgresReadModel) -> None:
    writer_epoch = model.take_over()
    run(model, "INSERT INTO {schema}.first__rows VALUES ('order', 'o-7', 3, 'order/o-7/3', '{\"at\"\\:3}')")
    staged = model.open_batch(writer_epoch)
    commit(staged, write(staged, change(2), attempt=1), upto=9)
    assert sequences(model) == {"o-1": 2, "o-7": 3}


@pytest.mark.clause("V10", "Z6")
def test_rows_of_an_attempt_that_spark_does_not_name_stay_out(model: PostgresReadModel) -> None:
    """It has finished, and Spark has lost its report."""
    staged = model.open_batch(model.take_over())
    write(staged, change(1, of="o-lost"), attempt=1)
    commit(staged, write(staged, change(2), attempt=2), upto=9)
    assert sequences(model) == {"o-1": 2}


def staged_rows(staged: StagedBatch) -> str:
    return f"{staged.writer.stage}_rows"  # type: ignore[attr-defined]


def table(model: PostgresReadModel, name: str) -> int:
    """What identifies a table, whatever its name."""
    return int(str(scalar(model, f"SELECT CAST(CAST('{{schema}}.{name}' AS regclass) AS oid)")))


def scalar(model: PostgresReadModel, statement: str) -> object:
    with model.database.snapshot() as transaction:
        return transaction.connection.execute(text(spelled(model, statement))).scalar_one()


def run(model: PostgresReadModel, statement: str) -> None:
    with model.database.transaction() as transaction:
        transaction.connection.execute(text(spelled(model, statement)))


def spelled(model: PostgresReadModel, statement: str) -> str:
    return statement.replace("{schema}", model.database.renderer.schema or "")
