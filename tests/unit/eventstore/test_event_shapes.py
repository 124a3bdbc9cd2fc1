"""An event's fields in each of their representations, compared with `driftq.model.Event`.

1. `model.Event`: what a writer hands over and a reader gets back. The one source.
2. `http.events.schemas.EventBody`: the body of `POST /v1/events`.
3. `http.events.schemas.EventLine`: an event in the answers of `GET /v1/events` and `/v1/events/log`.
4. `eventstore.append.draft.Draft`: an event that is checked and encoded and has no number yet.
5. The table `events` and the statements that write and read it, for SQLite and PostgreSQL.
6. `eventstore.stored.StoredEvent`: a row of the log, and the columns of a segment in this order.
7. `eventstore.published.PublishedEvent`: the value of a message of `events.<type>`.
8. `pipeline.worker.derived.DerivedEvent`: what a handler returns.

`model.event.EventHead` holds the fields that 3 and 7 share. The rows for PostgreSQL, the Parquet schema, the
columns of Spark's event source and the client's request body are derived from these and cannot differ.
"""

import re
from importlib.resources import files

import pytest

from driftq.eventstore.append.draft import Draft
from driftq.eventstore.append.writer import _Row
from driftq.eventstore.published import PublishedEvent
from driftq.eventstore.seal.segment import SCHEMA
from driftq.eventstore.stored import StoredEvent
from driftq.model import Event
from driftq.model.wire.events import EventBody, EventLine
from driftq.pipeline.worker.derived import DerivedEvent

EVENT = set(Event.__struct_fields__)
STORED = (EVENT - {"occurred_at"}) | {"occurred_at_us", "content_hash"}
TABLE = STORED - {"kind", "position"}  # The kind stands in the metadata, positions have a table of their own.
NUMBERING = {"place", "nth", "events"}

APPEND = (files("driftq.eventstore") / "queries" / "append.sql").read_text()
READ = (files("driftq.eventstore") / "queries" / "read.sql").read_text()
REBUILD = (files("driftq.eventstore") / "queries" / "rebuild.sql").read_text()


def names(columns: str) -> set[str]:
    """Column names of an SQL list: `e.payload, g.event_id text` → payload, event_id."""
    return {re.sub(r"^\s*(?:\w+\.)?(\w+).*$", r"\1", each, flags=re.DOTALL) for each in columns.split(",")}


def test_the_request_body_has_all_that_a_writer_may_say() -> None:
    assert set(EventBody.__struct_fields__) == (EVENT - {"position"}) | {"expected_seq"}


def test_an_answer_has_every_field() -> None:
    assert set(EventLine.__struct_fields__) == EVENT


def test_a_draft_has_what_is_stored_before_there_is_a_position() -> None:
    aggregate = {"aggregate_type", "aggregate_id"}
    assert set(Draft.__struct_fields__) == (TABLE - aggregate) | {"aggregate", "expected_seq", "index"}


def test_a_stored_event_has_every_field_and_its_hash() -> None:
    assert set(StoredEvent.__struct_fields__) == STORED


def test_a_segment_has_the_columns_that_format_1_began_with() -> None:
    assert SCHEMA.names == [
        *("position", "event_id", "aggregate_type", "aggregate_id", "sequence_number", "event_type", "kind"),
        *("operation", "occurred_at", "payload", "metadata", "schema_version", "content_hash"),
    ]


def test_a_published_event_has_every_field() -> None:
    assert set(PublishedEvent.__struct_fields__) == EVENT


def test_a_derived_event_has_what_neither_the_worker_nor_the_store_fills_in() -> None:
    filled_in = {"event_id", "operation", "sequence_number", "occurred_at", "position"}
    assert set(DerivedEvent.__struct_fields__) == EVENT - filled_in


@pytest.mark.parametrize("dialect", ["sqlite", "postgres"])
def test_the_table_has_a_column_for_each_stored_field(dialect: str) -> None:
    text = (files("driftq.eventstore") / "migrations" / f"0001_events.{dialect}.sql").read_text()
    table = re.search(r"CREATE TABLE \{events\} \((.*?)\n\)", text, re.DOTALL)
    assert table is not None
    columns = {line.split()[0] for line in table[1].strip().splitlines()} - {"UNIQUE"}
    assert columns == TABLE | {"row_id"}


def test_every_statement_that_writes_events_writes_every_column() -> None:
    written = re.findall(r"INSERT INTO \{events\} \((.*?)\)", APPEND + REBUILD, re.DOTALL)
    assert len(written) == 6
    assert [names(columns) - {"row_id"} for columns in written] == [TABLE] * 6


def test_every_statement_that_gets_rows_gets_every_column() -> None:
    given = re.findall(r"\{rows g: ([^}]*content_hash[^}]*)\}", APPEND + REBUILD)
    assert len(given) == 3
    for columns in given:
        assert names(columns) - NUMBERING - {"position", "sequence_number"} == TABLE - {"sequence_number"}
    assert set(_Row.__struct_fields__) == TABLE | NUMBERING


def test_every_statement_that_reads_events_reads_every_column() -> None:
    read = re.findall(r"SELECT (p\.position, .*?)\nFROM", READ, re.DOTALL)
    assert len(read) == 5
    assert [names(columns) for columns in read] == [TABLE | {"position"}] * 5
