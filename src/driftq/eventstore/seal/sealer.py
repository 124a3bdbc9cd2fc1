"""The sealer gives committed events their position in the log and writes closed ranges of it as segments.

    place    committed events without a position get the next ones, in one fenced transaction; on SQLite
             the transaction that stores them has done it already
    cut      the next range [first, last] is noted in SQL: from here on its name and content are fixed
    create   the range is read, checked and written under that name, if no object has it yet
    mark     SQL notes that the segment is there; only then may the next range be cut
    trim     payloads of sealed events leave SQL, if asked for

After a crash the next sealer continues at the missing step and writes the same bytes again. A range is cut
only after the segment before it exists, so a listing always shows whole segments without gap or overlap.

Order of positions is order of commit as seen here, never a clock's. SQLite has one writer at a time, so
there the order of rows is that of commits. On PostgreSQL transactions end in another order than their row
ids say; a late one is simply placed later. Within an aggregate that cannot happen: number n + 1 is given
only after number n is committed.

Writers wait for a write transaction of the sealer. So it asks first whether there is anything to do, measures
segments in transactions that only read, and changes few rows at once.

`Sealing` runs a sealer on a thread of its own: slow object storage keeps no writer waiting.
"""

import logging
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from driftq.errors import DatabaseDamaged, EventDamaged, SealerReplaced, SegmentDiffers
from driftq.eventstore.options import SealOptions
from driftq.eventstore.schema import load_queries
from driftq.eventstore.seal.history import require_own_history
from driftq.eventstore.seal.lease import SealerLease
from driftq.eventstore.stored import SegmentRange, StoredEvent, stored_event
from driftq.sql import Database, Transaction

if TYPE_CHECKING:
    from driftq.eventstore.objects import Objects

ROUND_S = 1.0
FLUSH_S = 60.0
"""The longest time that events wait for a full segment."""
RETRY_S = 5.0
_TRIM_EVENTS = 64
"""In one transaction, which the writers wait for."""

logger = logging.getLogger("driftq.events")


class _Waiting(NamedTuple):
    """The events that wait for their segment, as far as they were measured."""

    after: int
    """The last position that is sealed."""
    last: int
    events: int
    size_bytes: int


class Sealer:
    """One candidate for the role. Take the lease, then call `step` repeatedly."""

    def __init__(
        self, database: Database, objects: "Objects | None", *, owner: str, options: SealOptions | None = None
    ) -> None:
        """Without object storage it only assigns positions."""
        self._database = database
        self._objects = objects
        self._options = options or SealOptions()
        self._queries = load_queries(database)
        self._lease = SealerLease(database, self._queries, owner=owner, lease_ms=self._options.lease_ms)
        self._waiting = _Waiting(0, 0, 0, 0)

    def take(self, *, force: bool = False) -> bool:
        """Whether this is the active sealer now; raises SegmentsAhead when the segments are not ours."""
        if not self._lease.take(force=force):
            return False
        if self._objects is not None:
            require_own_history(self._database, self._queries, self._objects)
            self._objects.sweep()
        return True

    def release(self) -> None:
        self._lease.end()

    def step(self, *, flush: bool = False) -> int:
        """Place all that waits, seal full segments (any rest too, to flush), trim; the number of new places.

        Raises SealerReplaced when another sealer has taken over, and EventDamaged when an event is not what
        was appended: neither it nor any later event is sealed then.
        """
        placed = 0
        while count := self.assign_positions():
            placed += count
        while self.seal(flush=flush):
            pass
        if self._options.trim:
            while self.trim():
                pass
        return placed

    def assign_positions(self) -> int:
        """Assign positions to committed events, to some if there are many; returns how many."""
        if "waits_for_position" in self._queries:
            with self._database.snapshot() as snapshot:
                self._lease.look(snapshot)
                if snapshot.row(self._queries["waits_for_position"]) is None:
                    return 0
        return self._lease.fenced(self._assign_positions)

    def seal(self, *, flush: bool = False) -> SegmentRange | None:
        """Write the next segment if enough events wait for it, or if any does, to flush; None if not."""
        if self._objects is None:
            return None
        segment = self._next_segment(flush=flush)
        if segment is None:
            self._lease.keep()
            return None
        self._create(segment, self._objects)
        self._lease.fenced(
            lambda transaction: transaction.run(
                self._queries["mark_sealed"], first=segment.first, last=segment.last
            )
        )
        return segment

    def trim(self) -> int:
        """Remove the payloads of some sealed events from SQL; returns how many."""
        return self._lease.fenced(self._trim)

    def _assign_positions(self, transaction: Transaction) -> int:
        end = transaction.row(self._queries["log_end"])
        return transaction.run(
            self._queries["give_positions"],
            last=end.last if end else 0,
            events_max=self._options.position_events_max,
        )

    def _next_segment(self, *, flush: bool) -> SegmentRange | None:
        """The range to write: one that is cut already, or a new one. Only this sealer cuts, by its lease."""
        with self._database.snapshot() as snapshot:
            self._lease.look(snapshot)
            newest = snapshot.row(self._queries["segments_end"])
            if newest and not newest.sealed:
                return SegmentRange(newest.first_position, newest.last_position)
            sealed_upto = newest.last_position if newest else 0
            last = self._end_of_segment(snapshot, sealed_upto, flush=flush)
        if last is None:
            return None
        self._lease.fenced(
            lambda transaction: transaction.run(
                self._queries["cut_segment"], first=sealed_upto + 1, last=last, sealed=0
            )
        )
        return SegmentRange(sealed_upto + 1, last)

    def _end_of_segment(self, snapshot: Transaction, sealed_upto: int, *, flush: bool) -> int | None:
        """Each event is measured once while its segment fills, and once more when it is full."""
        waiting = self._waiting
        if waiting.last < sealed_upto or waiting.after != sealed_upto:
            waiting = _Waiting(sealed_upto, sealed_upto, 0, 0)
        options = self._options
        fresh = snapshot.row(
            self._queries["measure"], last=waiting.last, events_max=options.segment_events_max
        )
        if fresh.events:
            waiting = _Waiting(
                sealed_upto,
                fresh.last_position,
                waiting.events + fresh.events,
                waiting.size_bytes + fresh.size_bytes,
            )
        self._waiting = waiting
        if waiting.events >= options.segment_events_max or waiting.size_bytes >= options.segment_bytes_max:
            full = snapshot.row(
                self._queries["full_segment"],
                last=sealed_upto,
                events_max=options.segment_events_max,
                bytes_max=options.segment_bytes_max,
            )
            return int(full.position)
        return waiting.last if waiting.events and flush else None

    def _create(self, segment: SegmentRange, objects: "Objects") -> None:
        from driftq.eventstore.seal.segment import (  # pyarrow is needed only here
            decode_segment,
            encode_segment,
        )

        events = self._events(segment)
        content = encode_segment(events)
        if objects.create(segment.name, content):
            return
        # A sealer before us was killed after this step, or the store told us twice. Another release of
        # pyarrow may have written other bytes for the same events.
        there = objects.read(segment.name)
        if there != content and decode_segment(there, name=segment.name) != events:
            raise SegmentDiffers(segment.name)

    def _events(self, segment: SegmentRange) -> list[StoredEvent]:
        with self._database.snapshot() as snapshot:
            rows = snapshot.rows(self._queries["log_events"], first=segment.first, last=segment.last)
        return [stored_event(row) for row in rows]

    def _trim(self, transaction: Transaction) -> int:
        progress = transaction.row(self._queries["trimmed_upto"])
        newest = transaction.rows(self._queries["segments_end"])
        trimmed = progress.trimmed_upto if progress else 0
        sealed_upto = max((row.last_position for row in newest if row.sealed), default=0)
        last = min(trimmed + _TRIM_EVENTS, sealed_upto)
        if last <= trimmed:
            return 0
        transaction.run(self._queries["trim"], first=trimmed + 1, last=last)
        transaction.run(self._queries["mark_trimmed"], last=last)
        return int(last - trimmed)


class Sealing:
    """Places and seals appended events while this is the active sealer; otherwise waits to become it."""

    def __init__(
        self, sealer: Sealer, *, alone: bool, on_damage: Callable[[EventDamaged | DatabaseDamaged], None]
    ) -> None:
        """`on_damage` is called on this thread, once until a round succeeds again."""
        self._sealer = sealer
        self._alone = alone
        self._on_damage = on_damage
        self._active = False
        self._troubled = False
        self._over = threading.Event()
        self._flushed_at = time.monotonic()
        self._woken = threading.Event()
        self._woken.set()  # Events may be left from an earlier process.
        self._thread = threading.Thread(target=self._work, name="driftq-sealer", daemon=True)
        self._turn = threading.Lock()
        """Keeps one thread from taking the lease while another places events under it."""
        self._thread.start()

    def wake(self) -> None:
        """Events were appended."""
        self._woken.set()

    def place(self) -> None:
        """Assign log positions to committed events, if this is the active sealer. Raises Unavailable."""
        with self._turn:
            self._take()
            try:
                while self._active and self._sealer.assign_positions():
                    pass
            except SealerReplaced:
                self._active = False

    def stop(self) -> None:
        """Finish the current round, and release the lease for the next sealer."""
        self._over.set()
        self._woken.set()
        self._thread.join()

    def _work(self) -> None:
        while not self._over.is_set():
            self._round()
            if self._over.wait(RETRY_S if self._troubled else ROUND_S):
                break
            self._woken.wait(FLUSH_S if self._active and not self._troubled else RETRY_S)
        if self._active:
            self._end()

    def _round(self) -> None:
        self._woken.clear()
        flush = time.monotonic() - self._flushed_at >= FLUSH_S
        try:
            self.place()
            if self._active:
                self._sealer.step(flush=flush)
                if flush:
                    self._flushed_at = time.monotonic()
            self._troubled = False
        except SealerReplaced as replaced:
            self._active = False
            logger.warning("%s; another server seals the event log now", replaced)
        except (EventDamaged, DatabaseDamaged) as damage:
            if not self._troubled:
                self._on_damage(damage)
            self._troubled = True
        except Exception as error:  # noqa: BLE001 - the supervisor: logged, and tried again
            if not self._troubled:
                logger.warning("the event log cannot be sealed now, it is tried again later: %s", error)
            self._troubled = True

    def _take(self) -> None:
        if not self._active:
            self._active = self._sealer.take(force=self._alone)

    def _end(self) -> None:
        try:
            self._sealer.release()
        except Exception as error:  # noqa: BLE001 - the supervisor: the lease expires anyway
            logger.warning("the sealer's lease was not released: %s", error)
