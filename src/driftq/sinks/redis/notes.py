"""Notes in Redis: for each kind the texts by id, and the ids of each group in the order of their bytes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby, islice

import msgspec

from driftq.errors import ReadModelUnavailable
from driftq.sinks.documents.port import Note
from driftq.sinks.redis.connection import RedisConnection, Script, ScriptCall
from driftq.sinks.redis.keys import NoteKeys, ProjectionKeys
from driftq.sinks.redis.paging import PAGE, merged_members, pages

_PUT = Script.load("put_notes")
_REMOVE = Script.load("remove_notes")
_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(tuple[str, str]).decode


class RedisNotes:
    """The notes of one projection. Those of a place are in one hash slot."""

    def __init__(self, connection: RedisConnection, keys: ProjectionKeys) -> None:
        self._connection = connection
        self._keys = keys

    def put(self, place: str, notes: Sequence[Note]) -> None:
        keys = self._keys.notes(place)
        for kind, of_kind in groupby(sorted(notes, key=lambda note: note.kind), lambda note: note.kind):
            while page := list(islice(of_kind, PAGE)):
                names: list[bytes | str] = [
                    keys.mark, keys.kinds, keys.ids(kind), keys.texts(kind), keys.groups(kind)
                ]  # fmt: skip
                arguments: list[bytes | str] = [kind]
                for note in page:
                    names.append(keys.group(kind, note.group))
                    arguments += (note.id, note.group, _encode((note.group, note.text)))
                [is_stored] = self._connection.run([ScriptCall(_PUT, names, arguments)])
                if not is_stored:
                    raise ReadModelUnavailable(self._connection.address, cause=f"it has no place {place}")

    def all(self, place: str, kind: str) -> Iterator[Note]:
        keys = self._keys.notes(place)
        for page in pages(merged_members(self._connection, [keys.ids(kind)])):
            yield from self._read(keys, kind, page)

    def of(self, place: str, kind: str, groups: Sequence[str]) -> Iterator[Note]:
        keys = self._keys.notes(place)
        wanted = set(groups)
        names = [keys.group(kind, group) for group in wanted]
        for page in pages(merged_members(self._connection, names)):
            found = self._read(keys, kind, list(dict.fromkeys(page)))
            yield from (note for note in found if note.group in wanted)

    def remove(self, place: str, kind: str, ids: Iterable[str]) -> None:
        keys = self._keys.notes(place)
        for page in pages(id.encode() for id in ids):
            notes = list(self._read(keys, kind, page))
            if notes:
                groups = [keys.group(kind, note.group) for note in notes]
                names = [keys.ids(kind), keys.texts(kind), *groups]
                self._connection.run([ScriptCall(_REMOVE, names, [note.id for note in notes])])

    def drop(self, place: str) -> None:
        keys = self._keys.notes(place)
        self._connection.command("DEL", keys.mark)  # Nothing is added from here on.
        for kind in [name.decode() for name in self._connection.command("SMEMBERS", keys.kinds)]:
            while groups := self._connection.command("SRANDMEMBER", keys.groups(kind), PAGE):
                self._connection.command("UNLINK", *(keys.group(kind, group.decode()) for group in groups))
                self._connection.command("SREM", keys.groups(kind), *groups)
            self._connection.command("UNLINK", keys.ids(kind), keys.texts(kind))
        self._connection.command("DEL", keys.kinds)

    def _read(self, keys: NoteKeys, kind: str, ids: Sequence[bytes]) -> Iterator[Note]:
        """Those that exist, in the order given."""
        for id, stored in zip(ids, self._connection.command("HMGET", keys.texts(kind), *ids), strict=True):
            if stored is not None:
                group, text = _decode(stored)
                yield Note(kind, group, id.decode(), text)
