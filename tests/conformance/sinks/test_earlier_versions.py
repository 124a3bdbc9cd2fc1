"""Read models of an earlier version are adopted: dead letters that were stored before they were published."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from driftq.sinks import ParquetSink, PostgresSink, ProjectionDeadLetter, ReadModelSink, SqliteSink
from driftq.sinks.dead_letters import HasOutbox
from driftq.sql import Database, open_database
from driftq.testing.sinks.cast import ORDERS, batch, change, dead_letter, seen
from driftq.testing.sinks.connected import NAME
from driftq.testing.sinks.dead_letters import FIRST, marks


@pytest.fixture(params=["sqlite", "postgres", "parquet"])
def sink(request: pytest.FixtureRequest, any_sink: dict[str, ReadModelSink]) -> ReadModelSink:
    return any_sink[request.param]


_TABLES_BEFORE = """
CREATE TABLE {driftq_projections} (
    name {text} NOT NULL PRIMARY KEY, epoch {bigint} NOT NULL, generation {bigint} NOT NULL
) {clustered};
CREATE TABLE {driftq_positions} (
    projection {text} NOT NULL, topic {text} NOT NULL, partition {bigint} NOT NULL,
    applied_offset {bigint} NOT NULL, PRIMARY KEY (projection, topic, partition)
) {clustered};
CREATE TABLE {driftq_dead_letters} (
    projection {text} NOT NULL, topic {text} NOT NULL, partition {bigint} NOT NULL,
    message_offset {bigint} NOT NULL, event_id {text}, stage {text} NOT NULL, error {text} NOT NULL,
    value {text}, recorded_at {bigint} NOT NULL,
    PRIMARY KEY (projection, topic, partition, message_offset)
) {clustered};
CREATE TABLE {orders_by_id__rows} (
    aggregate_type {text} NOT NULL, aggregate_id {text} NOT NULL, sequence_number {bigint} NOT NULL,
    event_id {text} NOT NULL, state {json}, PRIMARY KEY (aggregate_id, aggregate_type)
) {clustered};
CREATE TABLE {orders_by_id__waiting} (
    aggregate_type {text} NOT NULL, aggregate_id {text} NOT NULL, sequence_number {bigint} NOT NULL,
    event_id {text} NOT NULL, value {text} NOT NULL, topic {text} NOT NULL, partition {bigint} NOT NULL,
    message_offset {bigint} NOT NULL, PRIMARY KEY (aggregate_id, aggregate_type, sequence_number)
) {clustered};
INSERT INTO {driftq_projections} VALUES ('orders_by_id', 3, 1), ('another', 1, 1);
INSERT INTO {driftq_positions} VALUES ('orders_by_id', 'events.order', 0, 8);
INSERT INTO {orders_by_id__rows} VALUES ('order', 'o-1', 2, 'order/o-1/2', '{"at":2}');
INSERT INTO {driftq_dead_letters} VALUES
    ('orders_by_id', 'events.order', 0, 4, NULL, 'decode', 'no JSON', '{', 1000),
    ('orders_by_id', 'events.order', 0, 6, 'e6', 'write', 'refused', 'text', 2000),
    ('another', 'events.order', 0, 4, NULL, 'decode', 'no JSON', '{', 1000)
"""


@contextmanager
def _database(sink: ReadModelSink) -> Iterator[Database]:
    if isinstance(sink, PostgresSink):
        database = open_database(sink.url, schema=sink.schema)
    else:
        assert isinstance(sink, SqliteSink)
        database = open_database(f"sqlite:///{sink.path}")
    try:
        yield database
    finally:
        database.close()


@pytest.mark.clause("V3", "K10", "V3d")
def test_dead_letters_of_the_version_before_are_adopted_and_published(
    sink: ReadModelSink,
) -> None:
    if isinstance(sink, ParquetSink):
        _parquet_of_before(Path(sink.folder))
    else:
        with _database(sink) as database, database.transaction() as transaction:
            if isinstance(sink, PostgresSink):
                transaction.connection.exec_driver_sql(f'CREATE SCHEMA "{sink.schema}"')
            json = "TEXT" if isinstance(sink, SqliteSink) else "json"
            for statement in _TABLES_BEFORE.replace("{json}", json).split(";\n"):
                rendered = statement
                if "'{" not in statement:
                    rendered = transaction.renderer.render(statement)
                else:
                    table = statement.split("{", 1)[1].split("}", 1)[0]
                    rendered = statement.replace(f"{{{table}}}", transaction.renderer.render(f"{{{table}}}"))
                transaction.connection.exec_driver_sql(rendered)
    expected = [
        dead_letter(4),
        ProjectionDeadLetter("events.order", 0, 6, "e6", "write", "refused", "text"),
    ]
    model = sink.connect(NAME)
    assert list(model.dead_letters()) == expected  # Readers may be newer than the projection.
    assert marks(model) == {}
    epoch = model.take_over()
    assert list(model.dead_letters()) == expected
    if isinstance(model, HasOutbox):
        letters = model.outbox(epoch).pending(limit=10)
        assert [(letter.offset, letter.at) for letter in letters] == [(4, 1000), (6, 2000)]
        another = sink.connect("another")
        another.take_over()
        assert [dead.offset for dead in another.dead_letters()] == [4]  # Each has its own.
        another.close()
    assert model.positions() == {ORDERS: 8}
    model.apply(batch(change(3), upto=9, dead=(dead_letter(9)._replace(identity=FIRST),)), epoch)
    assert [dead.offset for dead in model.dead_letters()] == [4, 6, 9]
    assert seen(model)["order", "o-1"][0] == 3
    model.close()


def _parquet_of_before(folder: Path) -> None:
    own = folder / NAME
    own.mkdir(parents=True)
    dead = pa.table(
        {
            "topic": ["events.order"] * 2,
            "partition": pa.array([0, 0], pa.int64()),
            "offset": pa.array([4, 6], pa.int64()),
            "event_id": pa.array([None, "e6"], pa.string()),
            "stage": ["decode", "write"],
            "error": ["no JSON", "refused"],
            "value": ["{", "text"],
        }
    )
    rows = pa.table(
        {
            "aggregate_type": ["order"],
            "aggregate_id": ["o-1"],
            "sequence_number": pa.array([2], pa.int64()),
            "event_id": ["order/o-1/2"],
            "state": ['{"at":2}'],
        }
    )
    pq.write_table(dead, own / "dead-1.parquet")
    pq.write_table(rows, own / "rows-1.parquet")
    (own / "manifest-000000000005.json").write_text(
        '{"format":1,"version":5,"epoch":3,"generation":1,"rows":[{"name":"rows-1.parquet","rows":1}],'
        '"waiting":null,"dead_letters":["dead-1.parquet"],'
        '"reached":[{"topic":"events.order","partition":0,"offset":8}]}'
    )
