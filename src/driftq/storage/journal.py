"""The open commit: records become true in memory and bytes in a frame, in one step."""

from array import array
from collections.abc import Sequence

from driftq.core.evolve.fold import deliver, evolve
from driftq.core.lease import LeaseBlock
from driftq.core.records import MessagesDelivered, MessagesStored, Record, SegmentRolled, encode_record
from driftq.core.state import State, Topic
from driftq.log.frame import Frame
from driftq.log.log import Log
from driftq.log.manifest import MANIFEST
from driftq.log.recovery import Recovery
from driftq.model.options.limits import Limits
from driftq.storage.payloads import Payloads
from driftq.storage.restore import folding, restore


class Journal:
    """Joins state and log. Nothing else changes the state."""

    def __init__(self, log: Log, payloads: Payloads, *, limits: Limits) -> None:
        self._log = log
        self._payloads = payloads
        self._limits = limits
        self.state = State(limits)
        self.adopted = 0
        """The last segment of the manifest that the state's index was brought in line with."""
        self._frame: Frame | None = None
        self._frames: list[Frame] = []

    def recover(self) -> Recovery:
        """Read the newest snapshot and fold what the log has behind it."""
        self._frame = None
        self._frames = []
        self._payloads.forget()
        folder = self._log.folder
        found = restore(folder, self._limits)
        if found.manifest is None and MANIFEST in folder.names():
            folder.rename(MANIFEST, f"{MANIFEST}.damaged")  # No later start may use it.
        counts: dict[int, int] = {}
        recovery = self._log.recover(folding(found.state, counts=counts), after=found.end)
        self._log.note_records(counts.get(recovery.end.segment, 0))
        self.state = found.state
        self.adopted = found.end.segment
        return recovery

    def add(self, record: Record) -> None:
        """A record without messages."""
        head = encode_record(record)
        self._frame_with_space(len(head)).append(head)
        evolve(self.state, record, segment=0, blob_at=0)

    def add_delivered(self, record: MessagesDelivered) -> list[LeaseBlock]:
        head = encode_record(record)
        self._frame_with_space(len(head)).append(head)
        self.state.last_at = max(self.state.last_at, record.at)
        return deliver(self.state, record)

    def add_stored(self, record: MessagesStored, entries: Sequence[bytes]) -> None:
        blob = entries[0] if len(entries) == 1 else b"".join(entries)
        head = encode_record(record, blob_bytes=len(blob))
        frame = self._frame_with_space(len(head) + len(blob))
        blob_at = frame.append(head, blob) + len(head)
        self._payloads.remember(frame.segment, blob_at, blob)
        evolve(self.state, record, segment=frame.segment, blob_at=blob_at)

    def add_texts(
        self,
        topic: Topic,
        entries: Sequence[bytes],
        *,
        also: Record,
        now: int,
        fingerprints: Sequence[int] = (),
    ) -> None:
        """Stored forms of an internal topic, and a record about them, in one frame."""
        record = MessagesStored(
            at=now,
            topic=topic.id,
            first_offset=topic.next_offset,
            partition=0,
            partitions=b"",
            lengths=array("I", map(len, entries)).tobytes(),
            sizes=array("I", map(len, entries)).tobytes(),
            fingerprints=array("Q", fingerprints).tobytes(),
        )
        size = sum(map(len, entries)) + len(encode_record(record)) + len(encode_record(also))
        self.keep_together(size)
        self.add_stored(record, entries)
        self.add(also)

    def roll(self, record: SegmentRolled) -> None:
        """Let this record be the first of a new segment."""
        self._close_frame()
        self._log.roll()
        self.add(record)

    def keep_together(self, size: int) -> None:
        """The next `size` bytes of records go into one frame, so that no crash parts them."""
        self._frame_with_space(size)

    def _frame_with_space(self, size: int) -> Frame:
        """The open frame, or a new one when it is full."""
        frame = self._frame
        if frame is None or frame.size + size > frame.capacity:
            self._close_frame()
            frame = self._frame = self._log.begin(size)
        return frame

    def _close_frame(self) -> None:
        if self._frame is not None:
            self._log.finish(self._frame)
            self._frames.append(self._frame)
            self._frame = None

    def take(self) -> list[Frame]:
        """The frames of this commit, finished; the next record opens another."""
        self._close_frame()
        frames, self._frames = self._frames, []
        return frames
