"""Dead letters of projections: stored with the position, published once, redriven under the guard."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from driftq.errors import ProjectionFenced, RelayFenced
from driftq.model.dead_letter import HandlerDeadLetter
from driftq.sinks import (
    Application,
    ParquetSink,
    PostgresSink,
    ProjectionDeadLetter,
    ReadModel,
    ReadModelSink,
    SqliteSink,
    TopicPartition,
)
from driftq.sinks.dead_letters import HasOutbox, RedriveMark, RedrivesDeadLetters, dead_letter_id_of
from driftq.sql import Database, open_database
from tests.conformance.sinks.cast import ORDERS, batch, change, dead_letter, seen
from tests.conformance.sinks.conftest import NAME, Connect

FIRST, AGAIN = "driftq/first", "driftq/again"


def id_of(dead: ProjectionDeadLetter) -> str:
    return dead_letter_id_of(NAME, dead)


def marks(model: ReadModel) -> dict[str, str]:
    """Who redrove which."""
    assert isinstance(model, RedrivesDeadLetters)
    assert all(isinstance(mark, RedriveMark) for mark in model.redrive_marks().values())
    return {id: mark.redriven_by for id, mark in model.redrive_marks().items()}


@pytest.mark.clause("V3", "V3b", "V3d", "K10")
def test_a_dead_letter_waits_in_the_outbox_once(model: ReadModel) -> None:
    epoch = model.take_over()
    dead = dead_letter(4)._replace(identity=FIRST, attempts=6, key="o-1", event_id="e4", stage="write")
    model.apply(batch(change(1), upto=4, dead=(dead,)), epoch)
    model.apply(batch(change(1), upto=4, dead=(dead._replace(error="told otherwise"),)), epoch)
    assert list(model.dead_letters()) == [dead]
    if not isinstance(model, HasOutbox):
        return
    outbox = model.outbox(epoch)
    [letter] = outbox.pending(limit=10)
    assert letter == HandlerDeadLetter(
        kind=letter.kind,
        handler=NAME,
        topic="events.order",
        partition=0,
        offset=4,
        stage="write",
        error="no JSON",
        reason="max_attempts",
        attempts=6,
        at=letter.at,
        key="o-1",
        value="{",
        event_id="e4",
        identity=FIRST,
    )
    assert letter.id == id_of(dead)
    outbox.mark_published([letter])
    assert outbox.pending(limit=10) == []
    model.apply(batch(upto=5, dead=(dead,)), epoch)  # A repeated batch publishes nothing a second time.
    assert outbox.pending(limit=10) == []
    assert list(model.dead_letters()) == [dead]


@pytest.mark.clause("V3", "V3b", "K10")
def test_a_fenced_run_leaves_neither_position_nor_dead_letter(model: ReadModel, connect: Connect) -> None:
    older = model.take_over()
    newer = connect().take_over()
    with pytest.raises(ProjectionFenced):
        model.apply(batch(upto=4, dead=(dead_letter(4),)), older)
    assert (list(model.dead_letters()), model.positions()) == ([], {})
    if isinstance(model, HasOutbox):
        with pytest.raises(RelayFenced):
            model.outbox(older).pending(limit=1)
        with pytest.raises(RelayFenced):
            model.outbox(older).mark_published([])
        assert model.outbox(newer).pending(limit=1) == []


@pytest.mark.clause("K10", "V10")
def test_a_recreated_topic_has_dead_letters_of_its_own(model: ReadModel) -> None:
    epoch = model.take_over()
    both = [dead_letter(4)._replace(identity=identity) for identity in (AGAIN, FIRST)]
    for dead in both:
        model.apply(batch(dead=(dead,)), epoch)
    assert list(model.dead_letters()) == both
    assert id_of(both[0]) != id_of(both[1])


@pytest.mark.clause("K10")
def test_pages_of_the_outbox_go_on_behind_the_last_one(model: ReadModel) -> None:
    epoch = model.take_over()
    if not isinstance(model, HasOutbox):
        return
    model.apply(batch(dead=tuple(dead_letter(offset) for offset in range(7))), epoch)
    outbox = model.outbox(epoch)
    found: list[HandlerDeadLetter] = []
    while page := outbox.pending(limit=3, after=found[-1] if found else None):
        found += page
    assert sorted(letter.offset for letter in found) == list(range(7))


@pytest.mark.clause("K10")
def test_a_redrive_applies_under_the_guard_and_fences_no_one(model: ReadModel, connect: Connect) -> None:
    epoch = model.take_over()
    early, late = dead_letter(4), dead_letter(5)
    model.apply(batch(change(2), upto=5, dead=(early, late)), epoch)
    operator = connect()
    assert isinstance(operator, RedrivesDeadLetters)
    assert operator.redrive_marks() == {}
    assert operator.redrive(change(1), id_of(early), by="ada") is False
    assert seen(model)["order", "o-1"][0] == 2
    assert operator.redrive(change(3), id_of(late), by="bob") is True
    assert seen(model)["order", "o-1"][0] == 3
    assert marks(model) == {id_of(early): "ada", id_of(late): "bob"}
    model.apply(batch(change(4), upto=6), epoch)
    assert seen(model)["order", "o-1"][0] == 4
    assert marks(connect()) == {id_of(early): "ada", id_of(late): "bob"}


@pytest.mark.clause("K10", "V4")
def test_a_rebuild_redrives_what_it_applies_and_nothing_else(model: ReadModel) -> None:
    """It applies offset 1, gives up 2 again, and 3, which was redriven; 9 is behind its end."""
    epoch = model.take_over()
    dead = {offset: dead_letter(offset)._replace(identity=FIRST) for offset in (1, 2, 3, 9)}
    model.apply(batch(change(1), upto=9, dead=tuple(dead.values())), epoch)
    assert isinstance(model, RedrivesDeadLetters)
    model.redrive(change(2), id_of(dead[3]), by="ada")
    if isinstance(model, HasOutbox):
        model.outbox(epoch).mark_published(model.outbox(epoch).pending(limit=2))
    fresh = model.beside()
    rebuilding = fresh.take_over()
    fresh.apply(batch(change(1), dead=(dead[2], dead[3])), rebuilding)
    fresh.apply(Application(positions={TopicPartition(*ORDERS[:2], FIRST): 5}), rebuilding)
    model.swap(rebuilding)
    assert marks(model) == {id_of(dead[1]): "rebuild"}
    assert list(model.dead_letters()) == [dead[offset] for offset in (1, 2, 3, 9)]
    after = model.take_over()
    if isinstance(model, HasOutbox):
        assert len(model.outbox(after).pending(limit=10)) == 2


@pytest.mark.clause("K10")
def test_a_rebuild_that_is_given_up_publishes_nothing(model: ReadModel) -> None:
    model.take_over()
    fresh = model.beside()
    fresh.apply(batch(dead=(dead_letter(1),)), fresh.take_over())
    fresh.take_over()
    assert list(model.dead_letters()) == []
    if isinstance(model, HasOutbox):
        assert model.outbox(model.take_over()).pending(limit=1) == []


# Read models of the version before

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
    sink: ReadModelSink, connect: Connect, tmp_path: Path
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
    model = connect()
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
