"""Object storage that passes everything on, for tests that change one answer."""

from collections.abc import Iterator

from driftq.eventstore.objects import JoinableObjects
from driftq.eventstore.stored import SegmentRange


class Forwarding:
    """Does what the one behind it does."""

    def __init__(self, behind: JoinableObjects) -> None:
        self.behind = behind

    def create(self, name: str, content: bytes) -> bool:
        return self.behind.create(name, content)

    def read(self, name: str) -> bytes:
        return self.behind.read(name)

    def segments(self, *, after: SegmentRange | None = None) -> Iterator[SegmentRange]:
        return self.behind.segments(after=after)

    def sweep(self) -> None:
        self.behind.sweep()

    def covered(self) -> list[SegmentRange]:
        return self.behind.covered()

    def sizes(self) -> dict[SegmentRange, int]:
        return self.behind.sizes()

    def written_at(self, name: str) -> float:
        return self.behind.written_at(name)

    def delete(self, name: str) -> None:
        self.behind.delete(name)


class TellsTwice(Forwarding):
    """Keeps what it is given and then says that it was there before, as after a lost answer."""

    def create(self, name: str, content: bytes) -> bool:
        self.behind.create(name, content)
        return False


class Holey(Forwarding):
    """Has lost its second segment."""

    def segments(self, *, after: SegmentRange | None = None) -> Iterator[SegmentRange]:
        there = list(self.behind.segments(after=after))
        yield from there[:1] + there[2:]
