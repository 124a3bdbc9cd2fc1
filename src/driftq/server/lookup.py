"""Reading stored messages back for a decision: those that hold a key, or that are dead-lettered.

A turn never waits for the disk. Bytes in memory or in the page cache are there at once. For the rest the
stage calls `cold` first, has them fetched off the loop, and decides in a later turn.
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
        want_turn: Callable[[], None],
    ) -> None:
        self._journal = journal
        self._payloads = payloads
        self._background = background
        self._on_damage = on_damage
        self._want_turn = want_turn
        self._fetched: dict[MessageRef, bytes] = {}
        self.waiting = 0
        """Reads that are under way. Each ends with a turn: a stop waits for the last."""

    def message(self, ref: MessageRef) -> StoredMessage | None:
        """The message; None when it is no longer stored. Only for refs that are not `cold`."""
        entry = self.entry(ref)
        return decode_entry(entry) if entry is not None else None

    def entry(self, ref: MessageRef) -> bytes | None:
        """Its stored form."""
        fetched = self._fetched.get(ref)
        if fetched is not None:
            return fetched
        located = self._locate(ref)
        if located is None:
            return None
        return self._in_memory(*located) or self._read(*located)

    def cold(self, refs: Iterable[MessageRef]) -> list[MessageRef]:
        """Those that cannot be read without waiting for the disk."""
        cold: list[MessageRef] = []
        for ref in refs:
            located = None if ref in self._fetched else self._locate(ref)
            if located is not None and self._in_memory(*located) is None:
                cold.append(ref)
        return cold

    def fetch(self, refs: list[MessageRef], done: Callable[[NotConfirmed | None], None]) -> None:
        """Read them off the loop for the next turn; `done` gets None, or why they cannot be read."""

        def keep(entries: dict[MessageRef, bytes] | NotConfirmed) -> None:
            if isinstance(entries, NotConfirmed):
                done(entries)
                return
            self._fetched.update(entries)
            done(None)

        self._read_off_loop(self._locate_all(refs), keep)

    def read(
        self, refs: list[MessageRef], done: Callable[[dict[MessageRef, bytes] | NotConfirmed], None]
    ) -> None:
        """Pass the stored forms of messages to `done`: at once when they are in memory, else later.

        For replies that are being sent; it takes no part in a turn.
        """
        located = self._locate_all(refs)
        found = {ref: entry for ref, where in located.items() if (entry := self._in_memory(*where))}
        if len(found) == len(located):
            done(found)
        else:
            self._read_off_loop(located, done)

    def forget(self) -> None:
        """The turn has used what was fetched, unless some of it waits for more reads."""
        if self._fetched and not self.waiting:
            self._fetched.clear()

    def _read_off_loop(
        self,
        located: dict[MessageRef, tuple[PartitionIndex, int]],
        done: Callable[[dict[MessageRef, bytes] | NotConfirmed], None],
    ) -> None:
        def work() -> dict[MessageRef, bytes]:
            return {
                ref: self._payloads.read(index, [ordinal])[0] for ref, (index, ordinal) in located.items()
            }

        def finish(entries: dict[MessageRef, bytes] | Exception) -> None:
            self.waiting -= 1
            if isinstance(entries, LogCorrupt):
                self._on_damage(entries)
            done(NotConfirmed(str(entries)) if isinstance(entries, Exception) else entries)
            self._want_turn()

        self.waiting += 1
        self._background.read(work, finish)

    def _locate_all(self, refs: Iterable[MessageRef]) -> dict[MessageRef, tuple[PartitionIndex, int]]:
        return {ref: located for ref in refs if (located := self._locate(ref)) is not None}

    def _locate(self, ref: MessageRef) -> tuple[PartitionIndex, int] | None:
        topic = self._journal.state.topics_by_id.get(ref.topic)
        found = topic.locate(ref.offset) if topic is not None else None
        if topic is None or found is None:
            return None
        return topic.partitions[found[0]].index, found[1]

    def _in_memory(self, index: PartitionIndex, ordinal: int) -> bytes | None:
        try:
            entries = self._payloads.fetch(index, [ordinal])
        except LogCorrupt:
            return None  # The read that needs the message reports the damage.
        return entries[0] if entries else None

    def _read(self, index: PartitionIndex, ordinal: int) -> bytes:
        try:
            return self._payloads.read(index, [ordinal])[0]
        except LogCorrupt as damage:
            self._on_damage(damage)
            raise NotConfirmed(str(damage)) from damage
        except OSError as error:
            raise NotConfirmed(str(error)) from error
