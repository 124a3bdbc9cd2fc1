"""The control text of a read model of documents: who may write, into which place, and how far it has come.

The live read model and the one that a rebuild fills are in one text. A swap and the start of another rebuild
therefore exclude each other: the second one finds another version and decides again.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping

import msgspec

from driftq.sinks.documents.port import DocumentStore
from driftq.sinks.manifest import Reached, advanced
from driftq.sinks.port import TopicPartition, WriterEpoch

_NAME = "control"


class WrittenPlace(msgspec.Struct, frozen=True, kw_only=True):
    """One read model: its place, the run that may write it, and its positions."""

    epoch: int = 0
    generation: int = 1
    place: str = ""
    """Empty where there is none: before the first run, and beside after a swap."""
    reached: tuple[Reached, ...] = ()

    @property
    def writer_epoch(self) -> WriterEpoch:
        return WriterEpoch(self.epoch, self.generation)

    @property
    def positions(self) -> dict[TopicPartition, int]:
        return {TopicPartition(at.topic, at.partition, at.identity): at.offset for at in self.reached}

    def moved(self, positions: Mapping[TopicPartition, int]) -> WrittenPlace:
        return msgspec.structs.replace(self, reached=advanced(self.positions, positions))


class DocumentControl(msgspec.Struct, frozen=True, kw_only=True):
    """One version of the control text."""

    format: int = 1
    live: WrittenPlace = WrittenPlace()
    beside: WrittenPlace = WrittenPlace()
    retired: tuple[str, ...] = ()
    """Places that no run uses again. They may have been dropped, or not yet."""

    def taken_over(self) -> DocumentControl:
        """With the next run of the live read model."""
        live = msgspec.structs.replace(
            self.live, epoch=self.live.epoch + 1, place=self.live.place or unused_place()
        )
        return msgspec.structs.replace(self, live=live)

    def rebuilding(self) -> DocumentControl:
        """With the next rebuild, in a place of its own."""
        fresh = WrittenPlace(epoch=self.beside.epoch + 1, place=unused_place())
        return msgspec.structs.replace(self, beside=fresh, retired=_with(self.retired, self.beside.place))

    def swapped(self) -> DocumentControl:
        """With the place of the rebuild as the live one."""
        live = msgspec.structs.replace(
            self.live,
            generation=self.live.generation + 1,
            place=self.beside.place,
            reached=self.beside.reached,
        )
        return msgspec.structs.replace(
            self,
            live=live,
            beside=WrittenPlace(epoch=self.beside.epoch),
            retired=_with(self.retired, self.live.place),
        )


def unused_place() -> str:
    """A name that no place has had."""
    return uuid.uuid4().hex


def _with(places: tuple[str, ...], place: str) -> tuple[str, ...]:
    return (*places, place) if place else places


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(DocumentControl).decode


def read_control(store: DocumentStore) -> DocumentControl:
    """As it is now; an empty one where nothing was ever written."""
    stored = store.read_control(_NAME)
    return _decode(stored.text) if stored else DocumentControl()


def change_control(
    store: DocumentStore, decide: Callable[[DocumentControl], DocumentControl]
) -> DocumentControl:
    """Store what `decide` makes of it, and return that; decides again when another writer was faster."""
    while True:
        stored = store.read_control(_NAME)
        control = _decode(stored.text) if stored else DocumentControl()
        following = decide(control)
        if following == control:
            return control
        expected = stored.version if stored else None
        if store.write_control(_NAME, _encode(following).decode(), expected=expected):
            return following
