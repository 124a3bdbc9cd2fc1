"""The index that finds messages by key and tenant: part of the history, written in its transaction.

A row holds a hash, not the text: a reader compares the stored message. Rows are few bytes each, and
the index of a topic covers a range of its offsets, which `search_extents` begins and the last sealed
segment ends. A history that an older release wrote has no such rows: its index begins with the first round
of this release.
"""

from __future__ import annotations

from array import array
from functools import lru_cache
from hashlib import blake2b
from typing import TYPE_CHECKING

import msgspec

from driftq.core.records import MessagesStored, Record, unpack_array
from driftq.core.state import State, Topic
from driftq.model.topic import INTERNAL_PREFIX
from driftq.storage.entry import PREFIX_BYTES

if TYPE_CHECKING:
    import sqlite3

BY_KEY = 0
BY_TENANT = 1
_PRUNED_SHARE = 8
"""Rows of dropped messages are deleted when they are at least this part of the rest: it reads all rows."""

SCHEMA = """
CREATE TABLE IF NOT EXISTS search (
    topic INTEGER NOT NULL,
    field INTEGER NOT NULL,
    hash INTEGER NOT NULL,
    "offset" INTEGER NOT NULL,
    "partition" INTEGER NOT NULL,
    PRIMARY KEY (topic, field, hash, "offset")
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS search_extents (
    topic INTEGER PRIMARY KEY,
    first_offset INTEGER NOT NULL,
    pruned_to INTEGER NOT NULL
);
CREATE TABLE IF NOT EXISTS search_progress (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    segment INTEGER NOT NULL
);
"""


class _Owner(msgspec.Struct, gc=False):
    tenant_id: str | None = None
    run_id: str | None = None


class SearchFields(msgspec.Struct, gc=False):
    """What a stored message can be found by."""

    key: str
    envelope: _Owner | None = None

    @property
    def tenant_id(self) -> str | None:
        return None if self.envelope is None else self.envelope.tenant_id

    @property
    def run_id(self) -> str | None:
        return None if self.envelope is None else self.envelope.run_id


_decoder = msgspec.json.Decoder(SearchFields)


def search_fields(entry: bytes) -> SearchFields:
    """The fields of a stored form."""
    return _decoder.decode(memoryview(entry)[PREFIX_BYTES:])


@lru_cache(maxsize=65_536)
def search_hash(text: str) -> int:
    """64 bits of a text, signed as SQLite's integers are."""
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "little", signed=True)


class _Rows:
    """Rows of one topic and field, as columns: a round may see millions."""

    __slots__ = ("hashes", "offsets", "partitions")

    def __init__(self) -> None:
        self.hashes = array("q")
        self.offsets = array("Q")
        self.partitions = array("I")

    def add(self, text: str, offset: int, partition: int) -> None:
        self.hashes.append(search_hash(text))
        self.offsets.append(offset)
        self.partitions.append(partition)


class SearchWriter:
    """Collects the rows of a round."""

    def __init__(self) -> None:
        self._rows: dict[tuple[int, int], _Rows] = {}
        self._first: dict[int, int] = {}
        """The first offset of each topic that the round has seen."""

    def see(self, state: State, record: Record, payload: memoryview, blob_at: int) -> None:
        if not isinstance(record, MessagesStored):
            return
        topic = record.topic
        if state.topics_by_id[topic].name.startswith(INTERNAL_PREFIX):
            return
        self._first.setdefault(topic, record.first_offset)
        keys = self._rows.setdefault((topic, BY_KEY), _Rows())
        tenants = self._rows.setdefault((topic, BY_TENANT), _Rows())
        numbers = unpack_array("H", record.partitions) if record.partition < 0 else None
        for slot, length in enumerate(unpack_array("I", record.lengths)):
            fields = _decoder.decode(payload[blob_at + PREFIX_BYTES : blob_at + length])
            blob_at += length
            number = record.partition if numbers is None else numbers[slot]
            if fields.key:
                keys.add(fields.key, record.first_offset + slot, number)
            if fields.envelope is not None and fields.envelope.tenant_id:
                tenants.add(fields.envelope.tenant_id, record.first_offset + slot, number)

    def write(self, database: sqlite3.Connection, state: State, *, after: int, upto: int) -> None:
        """Add the rows; `after` is the segment up to which the history was written before this round."""
        kept = database.execute("SELECT segment FROM search_progress").fetchone()
        topics = [topic for topic in state.topics.values() if not topic.name.startswith(INTERNAL_PREFIX)]
        if kept is None or kept[0] != after:  # New, or a release without this index has written in between.
            database.execute("DELETE FROM search")
            database.execute("DELETE FROM search_extents")
            begun = [(topic.id, self._first.get(topic.id, topic.next_offset)) for topic in topics]
        else:
            begun = list(self._first.items())
        database.executemany(
            "INSERT OR IGNORE INTO search_extents VALUES (?, ?, ?)",
            ((topic, first, first) for topic, first in begun),
        )
        for (topic, field), rows in self._rows.items():
            columns = zip(rows.hashes, rows.offsets, rows.partitions, strict=True)
            database.executemany(f"INSERT OR REPLACE INTO search VALUES ({topic}, {field}, ?, ?, ?)", columns)
        _prune(database, topics)
        database.execute(
            "INSERT INTO search_progress VALUES (1, ?) ON CONFLICT DO UPDATE SET segment = excluded.segment",
            (upto,),
        )


def _prune(database: sqlite3.Connection, topics: list[Topic]) -> None:
    """Delete the rows of topics and messages that are no longer stored."""
    known = {topic.id: topic for topic in topics}
    for number, pruned_to in database.execute("SELECT topic, pruned_to FROM search_extents").fetchall():
        topic = known.get(number)
        if topic is None:
            database.execute("DELETE FROM search WHERE topic = ?", (number,))
            database.execute("DELETE FROM search_extents WHERE topic = ?", (number,))
            continue
        first = first_kept(topic)
        if (first - pruned_to) * _PRUNED_SHARE >= max(1, topic.next_offset - first):
            database.execute('DELETE FROM search WHERE topic = ? AND "offset" < ?', (number, first))
            database.execute("UPDATE search_extents SET pruned_to = ? WHERE topic = ?", (first, number))


def first_kept(topic: Topic) -> int:
    """The lowest offset of a kept message; the next offset where there is none."""
    firsts = (part.index.first_offset for part in topic.partitions if part.index.end > part.index.first)
    return min(firsts, default=topic.next_offset)


def indexed_from(database: sqlite3.Connection, topic: int) -> int | None:
    """The first offset of a topic that the index covers; None where it covers nothing."""
    found = database.execute("SELECT 1 FROM sqlite_master WHERE name = 'search_progress'").fetchone()
    if found is None:
        return None
    behind = database.execute(
        "SELECT 1 FROM progress, search_progress WHERE progress.segment <> search_progress.segment"
    ).fetchone()
    row = database.execute("SELECT first_offset FROM search_extents WHERE topic = ?", (topic,)).fetchone()
    return int(row[0]) if row is not None and behind is None else None
