"""A projection's documents in Redis: compare-and-set by script, an index for each bucket, and its control.

A document is one hash. Where values have a lifetime, the text is a key of its own that expires, and the hash
with the sequence stays. A tombstone is a hash without a text.

Every script checks that the place exists. Whoever writes to a place that was dropped, or that a flushed
server has lost, learns it and leaves nothing behind.
"""

from __future__ import annotations

import uuid
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from driftq.errors import ReadModelSwapped, ReadModelUnavailable
from driftq.model import Aggregate
from driftq.sinks.documents.port import ControlText, Note
from driftq.sinks.port import Change, RefusedChange
from driftq.sinks.redis.connection import RedisConnection, Script, ScriptCall
from driftq.sinks.redis.keys import (
    BUCKETS,
    BucketKeys,
    DocumentName,
    ProjectionKeys,
    aggregate_of,
    document_name,
)
from driftq.sinks.redis.notes import RedisNotes
from driftq.sinks.redis.paging import PAGE, merged_members, pages

_PAGE_BYTES = 1 << 20
_SENT_BYTES = 8 << 20
_EARLIER = 64 * 33
"""Characters of earlier versions. A run that misses its own among them reads its positions again."""
_PUT = Script.load("put_documents")
_FORGET = Script.load("forget_documents")
_WRITE_CONTROL = Script.load("write_control")
_PUBLISH = Script.load("publish_place")


@dataclass(frozen=True, slots=True, kw_only=True)
class Lifetimes:
    """Of the texts of documents, and of guards without a text; None keeps them."""

    value_ms: int | None = None
    guard_ms: int | None = None


class RedisStore:
    """The document store of one projection."""

    def __init__(
        self,
        connection: RedisConnection,
        keys: ProjectionKeys,
        *,
        lifetimes: Lifetimes,
        value_bytes_max: int,
        wait_replicas: int,
    ) -> None:
        self._connection = connection
        self._keys = keys
        self._lifetimes = lifetimes
        self._value_bytes_max = value_bytes_max
        self._wait_replicas = wait_replicas
        self._notes = RedisNotes(connection, keys)
        self._seen: dict[str, bytes] = {}
        """The newest version of each control text that was written here."""

    @property
    def address(self) -> str:
        return f"{self._connection.address} ({self._keys.prefix})"

    def read_control(self, name: str) -> ControlText | None:
        """Raises ReadModelSwapped where the server has gone back behind what this store has seen.

        It has restarted without its last writes, or a replica without them has taken over: documents of
        settled batches may be gone. A run that goes on from the stored positions writes them again.
        """
        text, version, earlier = self._connection.command(
            "HMGET", self._keys.control(name), "text", "version", "earlier"
        )
        if (seen := self._seen.get(name)) is not None:
            if version is None or seen not in (version, *earlier.split()):
                raise ReadModelSwapped(self._keys.projection)
            self._seen[name] = version
        return None if version is None else ControlText(text.decode(), version.decode())

    def write_control(self, name: str, text: str, *, expected: str | None) -> bool:
        if self._wait_replicas:
            self._connection.confirm(self._wait_replicas, self._keys.barrier)
        version = uuid.uuid4().hex  # A counter would start over when the server loses it.
        arguments = [expected or "", version, text, str(_EARLIER)]
        is_stored = self._connection.run([ScriptCall(_WRITE_CONTROL, [self._keys.control(name)], arguments)])
        if is_stored[0]:
            self._seen[name] = version.encode()
        return bool(is_stored[0])

    def create_place(self, place: str) -> None:
        now = self._now()
        marks = [bucket.mark for bucket in self._buckets(place)] + [self._keys.notes(place).mark]
        self._connection.commands([("SET", mark, now, "NX") for mark in marks])
        self._connection.command("SADD", self._keys.places, place)

    def publish_place(self, place: str) -> None:
        self._connection.run([ScriptCall(_PUBLISH, [self._keys.places, self._keys.live], [place])])

    def idle_ms(self, place: str) -> int:
        """How long ago a document was last written to it, by the server's clock."""
        marks = self._connection.commands([("GET", bucket.mark) for bucket in self._buckets(place)])
        return self._now() - max((int(mark) for mark in marks if mark is not None), default=0)

    def drop_place(self, place: str) -> None:
        self._connection.command("SREM", self._keys.places, place)
        for bucket in self._buckets(place):
            self._connection.command("DEL", bucket.mark)  # Nothing is added from here on.
            for kind in self._types([bucket]):
                self._drop_type(bucket, kind)
            self._connection.command("DEL", bucket.types, bucket.expiring)
        self._notes.drop(place)

    def put(self, place: str, changes: Sequence[Change]) -> list[RefusedChange]:
        refused: list[RefusedChange] = []
        parts: dict[tuple[int, str], list[_Written]] = defaultdict(list)
        for change in changes:
            try:
                written = _Written.of(change)
            except UnicodeEncodeError:
                refused.append(RefusedChange(change, "a text of it is not valid UTF-8"))
                continue
            problem = self._problem(written)
            if problem is None:
                parts[written.name.bucket, change.aggregate_type].append(written)
            else:
                refused.append(RefusedChange(change, problem))
        for calls in _together(self._put_calls(place, parts)):
            expired = self._connection.run([call for call, _ in calls])
            if any(found is None for found in expired):
                raise ReadModelUnavailable(self.address, cause=f"it has no place {place}")
            self._forget([(bucket, found) for (_, bucket), found in zip(calls, expired, strict=True)])
        return refused

    def get(self, place: str, aggregates: Sequence[Aggregate]) -> dict[Aggregate, Change]:
        found: dict[Aggregate, Change] = {}
        for page in pages(filter(_is_storable, aggregates)):
            found.update((Aggregate(*change[:2]), change) for change in self._read(place, page))
        return found

    def scan(self, place: str) -> Iterator[Change]:
        buckets = list(self._buckets(place))
        for kind in sorted(self._types(buckets)):
            ids = merged_members(self._connection, [bucket.index(kind) for bucket in buckets])
            for page in pages(Aggregate(kind, aggregate_id.decode()) for aggregate_id in ids):
                yield from self._read(place, page)

    def put_notes(self, place: str, notes: Sequence[Note]) -> None:
        self._notes.put(place, notes)

    def notes(self, place: str, kind: str, *, groups: Sequence[str] | None = None) -> Iterator[Note]:
        return self._notes.all(place, kind) if groups is None else self._notes.of(place, kind, groups)

    def remove_notes(self, place: str, kind: str, ids: Iterable[str]) -> None:
        self._notes.remove(place, kind, ids)

    def close(self) -> None:
        self._connection.close()

    def _now(self) -> int:
        seconds, microseconds = self._connection.command("TIME")
        return int(seconds) * 1000 + int(microseconds) // 1000

    def _buckets(self, place: str) -> Iterator[BucketKeys]:
        return (self._keys.bucket(place, bucket) for bucket in range(BUCKETS))

    def _types(self, buckets: Sequence[BucketKeys]) -> set[str]:
        answers = self._connection.commands([("SMEMBERS", bucket.types) for bucket in buckets])
        return {kind.decode() for answer in answers for kind in answer}

    def _read(self, place: str, aggregates: Sequence[Aggregate]) -> Iterator[Change]:
        """Those that exist, in the order given."""
        named = [
            (self._keys.bucket(place, bucket), suffix) for bucket, suffix in map(document_name, aggregates)
        ]
        hashes = self._connection.commands(
            [("HMGET", bucket.documents + suffix, "s", "e", "d", "v") for bucket, suffix in named]
        )
        apart = [at for at, (_, _, text, elsewhere) in enumerate(hashes) if text is None and elsewhere]
        texts = self._connection.commands([("GET", named[at][0].values + named[at][1]) for at in apart])
        for at, text in zip(apart, texts, strict=True):
            hashes[at][2] = text
        for aggregate, (sequence, event_id, text, _) in zip(aggregates, hashes, strict=True):
            if sequence is not None:
                state = None if text is None else text.decode()
                yield Change(aggregate.type, aggregate.id, int(sequence), event_id.decode(), state)

    def _problem(self, written: _Written) -> str | None:
        if written.change.sequence_number < 0:
            return "the sequence is negative"
        largest = max(len(written.text), len(written.event_id), len(written.name.suffix) + 1024)
        if largest > self._value_bytes_max:
            return f"it has {largest} bytes, and Redis accepts {self._value_bytes_max} (proto-max-bulk-len)"
        return None

    def _put_calls(
        self, place: str, parts: dict[tuple[int, str], list[_Written]]
    ) -> Iterator[tuple[ScriptCall, BucketKeys]]:
        value_ms, guard_ms = (
            "" if ms is None else str(ms) for ms in (self._lifetimes.value_ms, self._lifetimes.guard_ms)
        )
        for (number, kind), documents in parts.items():
            bucket = self._keys.bucket(place, number)
            hashes, values = bucket.documents, bucket.values
            id_start = len(hashes) + len(documents[0].name.suffix) - len(documents[0].id) + 1
            for page in _sized(documents):
                keys = [bucket.mark, bucket.types, bucket.index(kind), bucket.expiring]
                arguments: list[bytes | str] = [kind, str(id_start), value_ms, guard_ms]
                for written in page:
                    keys.append(hashes + written.name.suffix)
                    if value_ms:
                        keys.append(values + written.name.suffix)
                    arguments += (written.sequence, written.event_id, written.text)
                yield ScriptCall(_PUT, keys, arguments), bucket

    def _forget(self, expired: Sequence[tuple[BucketKeys, Sequence[bytes]]]) -> None:
        """Remove documents from the index whose guards are gone."""
        calls = []
        for bucket, hashes in expired:
            if hashes:
                aggregates = [aggregate_of(key.removeprefix(bucket.documents)) for key in hashes]
                keys = [bucket.expiring]
                for aggregate, key in zip(aggregates, hashes, strict=True):
                    keys += (bucket.index(aggregate.type), key)
                calls.append(ScriptCall(_FORGET, keys, [aggregate.id for aggregate in aggregates]))
        self._connection.run(calls)

    def _drop_type(self, bucket: BucketKeys, kind: str) -> None:
        for page in pages(merged_members(self._connection, [bucket.index(kind)])):
            suffixes = [document_name(Aggregate(kind, id.decode())).suffix for id in page]
            documents = [root + suffix for suffix in suffixes for root in (bucket.documents, bucket.values)]
            self._connection.command("UNLINK", *documents)
        self._connection.command("UNLINK", bucket.index(kind))


@dataclass(frozen=True, slots=True)
class _Written:
    """A change as bytes."""

    change: Change
    name: DocumentName
    id: bytes
    sequence: str
    event_id: bytes
    text: bytes

    @classmethod
    def of(cls, change: Change) -> _Written:
        """Raises UnicodeEncodeError."""
        kind, aggregate_id, sequence, event_id, state = change
        return cls(
            change,
            document_name(Aggregate(kind, aggregate_id)),
            aggregate_id.encode(),
            f"-{sequence}" if state is None else str(sequence),
            event_id.encode(),
            (state or "").encode(),
        )


def _sized(documents: Sequence[_Written]) -> Iterator[list[_Written]]:
    """Lists for one script each."""
    held: list[_Written] = []
    size = 0
    for written in documents:
        if held and (len(held) == PAGE or size + len(written.text) > _PAGE_BYTES):
            yield held
            held, size = [], 0
        held.append(written)
        size += len(written.text)
    if held:
        yield held


def _together(
    calls: Iterable[tuple[ScriptCall, BucketKeys]],
) -> Iterator[list[tuple[ScriptCall, BucketKeys]]]:
    """Calls that are sent at once."""
    held: list[tuple[ScriptCall, BucketKeys]] = []
    size = 0
    for call in calls:
        held.append(call)
        size += sum(map(len, call[0].arguments))
        if size > _SENT_BYTES:
            yield held
            held, size = [], 0
    if held:
        yield held


def _is_storable(aggregate: Aggregate) -> bool:
    """Whether UTF-8 can hold it; no other is ever stored."""
    try:
        document_name(aggregate)
    except UnicodeEncodeError:
        return False
    return True
