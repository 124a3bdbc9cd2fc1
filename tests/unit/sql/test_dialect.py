"""Marks in braces become what each engine understands, and nothing else slips through."""

import pytest

from driftq.errors import InvalidArgument
from driftq.sql import Dialect, Queries, SqlRenderer
from driftq.sql.queries import split_queries

SQLITE = SqlRenderer(Dialect.SQLITE)
POSTGRES = SqlRenderer(Dialect.POSTGRES, schema="ours", schemas={"sequence": "theirs"})


def test_tables_live_in_their_schema_on_postgres() -> None:
    source = "SELECT 1 FROM {claims}, {sequence.counters}"
    assert POSTGRES.render(source) == 'SELECT 1 FROM "ours"."claims", "theirs"."counters"'
    assert SqlRenderer(Dialect.SQLITE, schemas={"sequence": "x"}).render(source) == (
        'SELECT 1 FROM "claims", "counters"'
    )


def test_rows_are_one_bound_text() -> None:
    source = "SELECT g.id FROM {rows g: id text, n bigint}"
    assert POSTGRES.render(source) == (
        "SELECT g.id FROM json_to_recordset(CAST(:g AS json)) AS g(id text, n bigint)"
    )
    assert SQLITE.render(source) == (
        "SELECT g.id FROM (SELECT value ->> 'id' AS id, value ->> 'n' AS n FROM json_each(:g)) AS g"
    )


def test_locks_exist_where_rows_can_be_locked() -> None:
    source = "SELECT 1 {for_update} / {for_update kept}"
    assert POSTGRES.render(source) == "SELECT 1 FOR UPDATE / FOR UPDATE OF kept"
    assert SQLITE.render(source) == "SELECT 1  / "


def test_the_time_is_the_servers_unless_a_clock_is_given() -> None:
    assert "clock_timestamp()" in POSTGRES.render("{now}")
    assert SqlRenderer(Dialect.POSTGRES, clock_given=True).render("{now}") == "CAST(:now_ms AS bigint)"
    assert SQLITE.render("{now}") == ":now_ms"


@pytest.mark.parametrize("mark", ["{Now}", "{rows g}", "{a b}", "{1}"])
def test_a_mark_that_means_nothing_is_refused(mark: str) -> None:
    with pytest.raises(ValueError, match="unknown mark"):
        POSTGRES.render(mark)


@pytest.mark.clause("S7")
@pytest.mark.parametrize("name", ["", "1st", 'a"; DROP TABLE x; --', "a" * 64, "ä"])
def test_a_schema_name_that_would_need_care_is_refused(name: str) -> None:
    with pytest.raises(InvalidArgument):
        SqlRenderer(Dialect.POSTGRES, schema=name)
    with pytest.raises(InvalidArgument):
        SqlRenderer(Dialect.POSTGRES, schemas={"sequence": name})


def test_a_file_holds_queries_for_both_engines_and_for_one() -> None:
    source = """
-- name: both
SELECT 1;

-- name: lock (postgres)
-- Why: a comment with a colon :like_this is no parameter.
LOCK TABLE x;
"""
    assert [(name, dialect) for name, dialect, _ in split_queries(source)] == [
        ("both", None),
        ("lock", Dialect.POSTGRES),
    ]


@pytest.mark.parametrize("package", ["driftq.sql", "driftq.registry"])
def test_every_room_has_the_same_queries_on_both_engines(package: str) -> None:
    on_sqlite, on_postgres = Queries.load(package, SQLITE), Queries.load(package, POSTGRES)
    of_one_row = {name for name in on_sqlite if name.endswith("_one")}  # For the loop of SQLite's driver.
    in_one_statement = {"finish_and_advance"} & set(on_postgres)  # What that loop does row by row.
    assert set(on_sqlite) - of_one_row == set(on_postgres) - in_one_statement
    assert len(on_sqlite) > 3
    assert not any("--" in statement.text.text for statement in on_sqlite.values())
    assert not any(statement.timed for statement in on_postgres.values())
