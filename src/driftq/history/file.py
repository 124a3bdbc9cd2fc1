"""The history's file: an SQLite database that one process writes and others read."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from driftq.core.state import State
from driftq.history.search import SCHEMA as SEARCH_SCHEMA

if TYPE_CHECKING:
    import sqlite3

_TABLES = ("deliveries", "steps", "letters")
SCHEMA = """
CREATE TABLE IF NOT EXISTS deliveries (
    topic INTEGER NOT NULL,
    "partition" INTEGER NOT NULL,
    "offset" INTEGER NOT NULL,
    "group" TEXT NOT NULL,
    attempt INTEGER NOT NULL,
    owner TEXT NOT NULL,
    delivered_at INTEGER NOT NULL,
    lease_until INTEGER NOT NULL,
    outcome TEXT,
    outcome_at INTEGER,
    reason TEXT,
    PRIMARY KEY (topic, "partition", "offset", "group", attempt)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS steps (
    run_id TEXT NOT NULL,
    topic INTEGER NOT NULL,
    "partition" INTEGER NOT NULL,
    "offset" INTEGER NOT NULL,
    step_id TEXT,
    parent_step_id TEXT,
    produced_at INTEGER NOT NULL,
    PRIMARY KEY (run_id, topic, "partition", "offset")
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS steps_by_place ON steps (topic, "partition", "offset");
CREATE TABLE IF NOT EXISTS letters (
    topic INTEGER NOT NULL,
    "partition" INTEGER NOT NULL,
    "offset" INTEGER NOT NULL,
    "group" TEXT NOT NULL,
    attempts INTEGER NOT NULL,
    reason TEXT NOT NULL,
    last_error TEXT NOT NULL,
    at INTEGER NOT NULL,
    dlq_topic INTEGER NOT NULL,
    dlq_offset INTEGER NOT NULL,
    redriven_at INTEGER,
    redriven_by TEXT,
    redriven_offset INTEGER,
    PRIMARY KEY (dlq_topic, dlq_offset)
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS letters_by_place ON letters (topic, "partition", "offset");
CREATE INDEX IF NOT EXISTS letters_by_redrive ON letters (topic, redriven_offset);
CREATE TABLE IF NOT EXISTS jobs (
    "offset" INTEGER PRIMARY KEY,
    entry BLOB,
    due_at INTEGER,
    state TEXT,
    ended_at INTEGER,
    last_error TEXT,
    result TEXT,
    requeued_at INTEGER
);
CREATE INDEX IF NOT EXISTS jobs_by_end ON jobs (ended_at) WHERE state <> '';
CREATE TABLE IF NOT EXISTS job_runs (
    "offset" INTEGER NOT NULL,
    token INTEGER NOT NULL,
    owner TEXT NOT NULL,
    started_at INTEGER NOT NULL,
    ended_at INTEGER,
    error TEXT,
    PRIMARY KEY ("offset", token)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS topics (topic INTEGER PRIMARY KEY, name TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS progress (one INTEGER PRIMARY KEY CHECK (one = 1), segment INTEGER NOT NULL);
"""


def open_history(path: str) -> sqlite3.Connection:
    """The database, created if missing; others may read while one writes."""
    import sqlite3  # A server without requests for the history does not need it.

    database = sqlite3.connect(path)
    database.execute("PRAGMA auto_vacuum = INCREMENTAL")
    database.execute("PRAGMA journal_mode = WAL")
    database.executescript(SCHEMA + SEARCH_SCHEMA)
    return database


def read_history(path: str | None) -> sqlite3.Connection | None:
    """The database for consistent reads; None where it is missing or lacks a table."""
    if path is None or not os.path.exists(path):
        return None
    import sqlite3

    database = sqlite3.connect(f"{Path(path).absolute().as_uri()}?mode=ro", uri=True, isolation_level=None)
    database.execute("BEGIN")
    found = {name for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    if found.issuperset((*_TABLES, "jobs", "job_runs", "progress")):
        return database
    database.close()
    return None


def history_end(database: sqlite3.Connection | None) -> int:
    """The last segment whose records are all in the history; 0 when there is none."""
    row = database.execute("SELECT segment FROM progress").fetchone() if database is not None else None
    return int(row[0]) if row is not None else 0


def forget_dropped(database: sqlite3.Connection, state: State) -> None:
    """Remove the rows of messages that are no longer stored."""
    names = {topic.id: name for name, topic in state.topics.items()}
    known = [topic for (topic,) in database.execute("SELECT topic FROM topics")]
    for table in _TABLES:
        database.executemany(
            f"DELETE FROM {table} WHERE topic = ?", [(topic,) for topic in known if topic not in names]
        )
        database.executemany(
            f'DELETE FROM {table} WHERE topic = ? AND "partition" = ? AND "offset" < ?',
            [
                (topic.id, number, part.index.first_offset)
                for topic in state.topics.values()
                for number, part in enumerate(topic.partitions)
                if part.index.first_offset
            ],
        )
    database.execute("DELETE FROM topics")
    database.executemany("INSERT INTO topics VALUES (?, ?)", names.items())
