"""The two tables of an outbox, which live in the user's database and belong to the user's migrations."""

from __future__ import annotations

from typing import Any

from driftq.outbox.connections import DatabaseName, database_of, run

_ROWS = """CREATE TABLE IF NOT EXISTS driftq_outbox (
    id {id},
    row_key text NOT NULL,
    kind text NOT NULL,
    target text NOT NULL,
    key text NOT NULL,
    body text NOT NULL,
    created_at {bigint} NOT NULL DEFAULT ({now}),
    position {bigint} UNIQUE,
    first_sent_at {bigint},
    parked_at {bigint},
    behind {bigint},
    error text,
    retry {bigint} NOT NULL DEFAULT 0
)"""
_NEW = """CREATE INDEX IF NOT EXISTS driftq_outbox_new ON driftq_outbox (id)
    WHERE position IS NULL AND parked_at IS NULL"""
_PARKED = """CREATE INDEX IF NOT EXISTS driftq_outbox_parked ON driftq_outbox (id)
    WHERE parked_at IS NOT NULL"""
_RELAY = """CREATE TABLE IF NOT EXISTS driftq_outbox_relay (
    name text NOT NULL PRIMARY KEY,
    outbox_id text NOT NULL,
    last_position {bigint} NOT NULL,
    owner text NOT NULL,
    token {bigint} NOT NULL,
    lease_until {bigint} NOT NULL
)"""
_WORDS: dict[DatabaseName, dict[str, str]] = {
    "postgresql": {
        "id": "bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY",
        "bigint": "bigint",
        "now": "CAST(extract(epoch FROM clock_timestamp()) * 1000 AS bigint)",
    },
    "sqlite": {
        # A number is never used again, not even when all rows are gone.
        "id": "INTEGER PRIMARY KEY AUTOINCREMENT",
        "bigint": "INTEGER",
        "now": "CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER)",
    },
}


def statements(database: DatabaseName) -> list[str]:
    """The statements that make the tables; repeating them changes nothing."""
    return [text.format(**_WORDS[database]) for text in (_ROWS, _NEW, _PARKED, _RELAY)]


def ddl(database: DatabaseName) -> str:
    """The DDL for a tool that runs migrations."""
    return ";\n\n".join(statements(database)) + ";\n"


def create(connection: Any) -> None:
    """Make the tables where they are missing, in the connection's transaction."""
    for statement in statements(database_of(connection)):
        run(connection, statement)
