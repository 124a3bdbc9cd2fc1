"""The publisher's checkpoint: the confirmed position on the topics, stored beside the event log.

A checkpoint never changes. The next one is a new object under the next number, and only one publisher can
create an object: of two that both continue from number 7, one gets number 8 and the other learns that it was
replaced. The same works in a folder and in a bucket.
"""

from __future__ import annotations

import re

import msgspec

from driftq.errors import PublisherReplaced, SegmentLost
from driftq.eventstore.objects import BucketObjects

FOLDER = "publisher"
LANES = 4
_KEPT = 3
"""How many checkpoints stay: a reader must still find the one it has listed."""
_NAME = re.compile(r"(?:.*/)?(\d{20})\.json")


class Checkpoint(msgspec.Struct, frozen=True, kw_only=True):
    """Everything up to `position` is on the topics, by the writer `publisher`."""

    publisher: str
    """The name it writes under. A new name starts from the beginning on every topic."""
    epoch: int = 0
    """Grows with each start and fences older runs."""
    lanes: int = LANES
    """The number of lanes for aggregates. It never changes, or order would be lost."""
    position: int = 0
    topics: dict[str, dict[int, int]] = {}
    """Of each topic and lane the last position that was confirmed."""
    recent: list[tuple[int, str]] = []
    """The last events published, by position and id."""
    marks: list[tuple[int, int]] = []
    """When (in milliseconds) which position was confirmed, as far back as the look-back goes."""


class CheckpointStore:
    """Reads and moves the checkpoint; one publisher at a time can move it."""

    def __init__(self, objects: BucketObjects, *, folder: str = FOLDER) -> None:
        """Each transport has a folder of its own: what one has says nothing about another."""
        self._objects = objects
        self._folder = folder
        self._number = 0

    def load(self) -> Checkpoint | None:
        """The newest checkpoint, from which this store goes on; None when there is none."""
        while names := self._names():
            try:
                content = self._objects.read(names[-1])
            except SegmentLost:
                continue  # Another publisher has just moved on and removed it.
            self._number = _number(names[-1])
            return msgspec.json.decode(content, type=Checkpoint)
        self._number = 0
        return None

    def save(self, checkpoint: Checkpoint) -> None:
        """Move on; raises PublisherReplaced when another publisher has moved on from here."""
        name = f"{self._folder}/{self._number + 1:020d}.json"
        made = self._objects.create(name, msgspec.json.encode(checkpoint))
        if not made or self._names(after=name):  # The other may have removed its object.
            raise PublisherReplaced(checkpoint.publisher, epoch=checkpoint.epoch)
        self._number += 1
        for old in self._names()[:-_KEPT]:
            self._objects.delete(old)

    def _names(self, *, after: str | None = None) -> list[str]:
        return [name for name in self._objects.names(self._folder, after=after) if _NAME.fullmatch(name)]


def _number(name: str) -> int:
    found = _NAME.fullmatch(name)
    assert found is not None  # Only such names are listed.
    return int(found[1])
