"""Reading back stored messages for a decision: those that hold a key, or that are given up.

What memory or the page cache holds is there at once. For the rest, whoever needs it waits for a read off the
loop and comes again.
"""

from collections.abc import Callable, Iterable

from driftq.core.index import PartitionIndex
from driftq.core.keys import MessageRef
from driftq.errors import LogCorrupt, NotConfirmed
from driftq.model import StoredMessage
from driftq.server.ports import Background
from driftq.storage.entry import decode_entry
from driftq.storage.journal import Journal
from driftq.storage.payloads import Payloads


class MessageLookup:
    """Stored messages by topic and offset."""

    def __init__(
        self,
        journal: Journal,
        payloads: Payloads,
        background: Background,
        *,
        on_damage: Callable[[LogCorrupt], None],
    ) -> None:
        self._journal = journal
        self._payloads = payloads
        self._background = background
        self._on_damage = on_damage
        self._fetched: dict[MessageRef, bytes] = {}
        self.waiting = 0
        """Reads that are under way."""

    def recall(self, claim: MessageRef) -> StoredMessage | None:
        """The message of a claim; None when it is no longer kept. `cold` was asked before."""
        entry = self.entry(claim)
        return decode_entry(entry) if entry is not None else None

    def entry(self, claim: MessageRef) -> bytes | None:
        """Its stored form."""
        fetched = self._fetched.get(claim)
        if fetched is not None:
            return fetched
        place = self._place(claim)
        if place is None:
            return None
        return self._at_hand(place) or self._read(place)

    def cold(self, claims: Iterable[MessageRef]) -> list[MessageRef]:
        """Those that cannot be had without waiting for the disk."""
        cold: list[MessageRef] = []
        for claim in claims:
            place = None if claim in self._fetched else self._place(claim)
            if place is not None and self._at_hand(place) is None:
                cold.append(claim)
        return cold

    def fetch(self, claims: list[MessageRef], done: Callable[[NotConfirmed | None], None]) -> None:
        """Read them off the loop; `done` gets None when they can be had, or why not."""
        places = [(claim, place) for claim in claims if (place := self._place(claim)) is not None]

        def work() -> list[bytes]:
            return [self._payloads.read(index, [ordinal])[0] for _, (index, ordinal) in places]

        def finish(entries: list[bytes] | Exception) -> None:
            self.waiting -= 1
            if isinstance(entries, LogCorrupt):
                self._on_damage(entries)
            if isinstance(entries, Exception):
                done(NotConfirmed(str(entries)))
                return
            self._fetched.update(zip([claim for claim, _ in places], entries, strict=True))
            done(None)

        self.waiting += 1
        self._background.read(work, finish)

    def read(
        self, claims: list[MessageRef], done: Callable[[dict[MessageRef, bytes] | NotConfirmed], None]
    ) -> None:
        """Give the stored forms of kept messages to `done`: at once when they are at hand, else later.

        For answers that are on their way out; it does not take part in a turn.
        """
        places = {claim: place for claim in claims if (place := self._place(claim)) is not None}
        found = {claim: entry for claim, place in places.items() if (entry := self._at_hand(place))}
        if len(found) == len(places):
            done(found)
            return

        def work() -> dict[MessageRef, bytes]:
            return {claim: self._payloads.read(index, [one])[0] for claim, (index, one) in places.items()}

        def finish(entries: dict[MessageRef, bytes] | Exception) -> None:
            self.waiting -= 1
            if isinstance(entries, LogCorrupt):
                self._on_damage(entries)
            done(NotConfirmed(str(entries)) if isinstance(entries, Exception) else entries)

        self.waiting += 1
        self._background.read(work, finish)

    def forget(self) -> None:
        """What was read has been used and may go, unless others wait."""
        if not self.waiting:
            self._fetched.clear()

    def _place(self, claim: MessageRef) -> tuple[PartitionIndex, int] | None:
        topic = self._journal.state.topics_by_id.get(claim.topic)
        found = topic.locate(claim.offset) if topic is not None else None
        if topic is None or found is None:
            return None
        return topic.partitions[found[0]].index, found[1]

    def _at_hand(self, place: tuple[PartitionIndex, int]) -> bytes | None:
        try:
            entries = self._payloads.fetch(place[0], [place[1]])
        except LogCorrupt:
            return None  # Whoever reads it in earnest will say so.
        return entries[0] if entries else None

    def _read(self, place: tuple[PartitionIndex, int]) -> bytes:
        try:
            return self._payloads.read(place[0], [place[1]])[0]
        except LogCorrupt as damage:
            self._on_damage(damage)
            raise NotConfirmed(str(damage)) from damage
        except OSError as error:
            raise NotConfirmed(str(error)) from error
