"""A document sink whose stores can be interrupted at each call, and that can refuse documents."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from driftq.errors import ReadModelUnavailable
from driftq.model import Aggregate
from driftq.sinks import Capabilities, Change, RefusedChange
from driftq.sinks.documents import ControlText, DocumentReadModel, DocumentSink, DocumentStore, Note

_Result = TypeVar("_Result")


class WriterStopped(Exception):
    """The process of a writer ends here."""


def stop() -> None:
    raise WriterStopped


def be_away() -> None:
    raise ReadModelUnavailable("the target", cause="interrupted by a test")


@dataclass
class StoreFaults:
    """What happens at the calls to a store; counts them."""

    at: int = -1
    """The number of the call, from 0, at which `action` happens, once."""
    action: Callable[[], None] = stop
    is_after: bool = False
    """Whether it happens when the target has already done what it was asked."""
    refuse: Callable[[Change], str | None] = lambda _: None
    calls: int = 0
    largest_put: int = 0
    published: list[str] = field(default_factory=list)

    @property
    def has_happened(self) -> bool:
        return 0 <= self.at < self.calls

    def around(self, call: Callable[[], _Result]) -> _Result:
        number = self.calls
        self.calls += 1
        if number == self.at and not self.is_after:
            self.action()
        result = call()
        if number == self.at and self.is_after:
            self.action()
        return result


@dataclass(frozen=True)
class FaultySink:
    """The sink under test with faults. It does not travel: its tasks are in this process."""

    sink: DocumentSink
    faults: StoreFaults

    @property
    def capabilities(self) -> Capabilities:
        return self.sink.capabilities

    def connect(self, projection: str) -> DocumentReadModel:
        """Without a call to the store."""
        return DocumentReadModel(projection, self, self.open_store(projection))

    def open_store(self, projection: str) -> FaultyStore:
        return FaultyStore(self.sink.open_store(projection), self.faults)


class FaultyStore:
    """One store with faults."""

    def __init__(self, store: DocumentStore, faults: StoreFaults) -> None:
        self._store = store
        self._faults = faults

    @property
    def address(self) -> str:
        return self._store.address

    def read_control(self, name: str) -> ControlText | None:
        return self._faults.around(lambda: self._store.read_control(name))

    def write_control(self, name: str, text: str, *, expected: str | None) -> bool:
        return self._faults.around(lambda: self._store.write_control(name, text, expected=expected))

    def create_place(self, place: str) -> None:
        self._faults.around(lambda: self._store.create_place(place))

    def publish_place(self, place: str) -> None:
        def publish() -> None:
            self._store.publish_place(place)
            self._faults.published.append(place)

        self._faults.around(publish)

    def drop_place(self, place: str) -> None:
        self._faults.around(lambda: self._store.drop_place(place))

    def put(self, place: str, changes: Sequence[Change]) -> list[RefusedChange]:
        refused: list[RefusedChange] = []
        fit: list[Change] = []
        for change in changes:
            problem = self._faults.refuse(change)
            if problem is None:
                fit.append(change)
            else:
                refused.append(RefusedChange(change, problem))
        self._faults.largest_put = max(self._faults.largest_put, len(changes))
        return self._faults.around(lambda: [*refused, *self._store.put(place, fit)])

    def get(self, place: str, aggregates: Sequence[Aggregate]) -> dict[Aggregate, Change]:
        return self._faults.around(lambda: self._store.get(place, aggregates))

    def scan(self, place: str) -> Iterator[Change]:
        yield from self._faults.around(lambda: self._store.scan(place))

    def put_notes(self, place: str, notes: Sequence[Note]) -> None:
        self._faults.around(lambda: self._store.put_notes(place, notes))

    def notes(self, place: str, kind: str, *, groups: Sequence[str] | None = None) -> Iterator[Note]:
        yield from self._faults.around(lambda: self._store.notes(place, kind, groups=groups))

    def remove_notes(self, place: str, kind: str, ids: Iterable[str]) -> None:
        self._faults.around(lambda: self._store.remove_notes(place, kind, ids))

    def close(self) -> None:
        self._store.close()


def each_call(story: Callable[[StoreFaults], None], action: Callable[[], None]) -> int:
    """Tell the story once for each of its calls, interrupted before it, and again after it.

    Returns how often it was interrupted.
    """
    interrupted = 0
    for is_after in (False, True):
        at = 0
        while True:
            faults = StoreFaults(at=at, action=action, is_after=is_after)
            story(faults)
            if not faults.has_happened:
                break
            at += 1
            interrupted += 1
    return interrupted
