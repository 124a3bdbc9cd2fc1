"""Maintenance of the server's folder: retention, disk space, new segments, rounds of the housekeeper.

No request waits for it: a tick looks at a few topics, measures the disk in the background, and starts a round
when a segment has been sealed.

    a segment is sealed ─▶ round ─▶ adoption ─▶ old files removed ─▶ the next round may start
"""

from __future__ import annotations

import errno
import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

from driftq.core.decide.retention import decide_retention
from driftq.core.records import SegmentRolled
from driftq.core.state import Topic
from driftq.errors import DiskFull, DriftQError, NotConfirmed
from driftq.housekeeping.process import Housekeeper
from driftq.log.log import Log
from driftq.model.backoff import doubled
from driftq.server.counters import Counters
from driftq.server.maintenance.adoption import Adoption
from driftq.server.ports import Background, Loop
from driftq.server.requests import SealRequest
from driftq.server.turn import Turn
from driftq.storage.journal import Journal

PARTITIONS_A_TICK = 2_000
_RETRY_MS = 1_000
_RETRY_MS_MAX = 60_000
_NO_SPACE = (errno.ENOSPC, errno.EDQUOT)

logger = logging.getLogger("driftq.housekeeping")


@dataclass(frozen=True, slots=True, kw_only=True)
class MaintenanceOptions:
    """Intervals, and how much disk space stays free."""

    tick_ms: int = 1_000
    roll_ms: int = 300_000
    """A segment that holds any record is sealed after this time."""
    free_bytes_min: int = 256 << 20


class SealWaiters:
    """Seal requests, each answered when its segment is sealed and adopted."""

    def __init__(self) -> None:
        self._new: list[SealRequest] = []
        self._waiting: list[tuple[int, SealRequest]] = []

    def add(self, request: SealRequest) -> None:
        self._new.append(request)

    @property
    def has_new(self) -> bool:
        """Whether a request has not been given a segment yet."""
        return bool(self._new)

    @property
    def latest(self) -> int:
        """The last segment that a request waits for; 0 when none waits."""
        return max((segment for segment, _ in self._waiting), default=0)

    def wait_for(self, segment: int) -> None:
        """Everything that the new requests are about is in the segments up to this one."""
        self._waiting += [(segment, request) for request in self._new]
        self._new = []

    def reached(self, segment: int) -> None:
        """Everything up to this segment is sealed and adopted."""
        reached = [request for wanted, request in self._waiting if wanted <= segment]
        self._waiting = [(wanted, request) for wanted, request in self._waiting if wanted > segment]
        for request in reached:
            request.reply(None)

    def fail(self, error: DriftQError) -> None:
        failed = [*self._new, *(request for _, request in self._waiting)]
        self._new, self._waiting = [], []
        for request in failed:
            request.reply(error)


class MaintenanceStage:
    """Adds the records that are due for retention and rolling, and runs the housekeeper."""

    handles: ClassVar = (SealRequest,)

    def __init__(
        self,
        log: Log,
        journal: Journal,
        *,
        loop: Loop,
        background: Background,
        counters: Counters,
        options: MaintenanceOptions,
        housekeeper: Housekeeper | None,
        want_turn: Callable[[], None],
    ) -> None:
        self._log = log
        self._journal = journal
        self._background = background
        self._counters = counters
        self._options = options
        self._housekeeper = housekeeper
        self._want_turn = want_turn
        self._adoption = Adoption(log, journal, loop, background)
        self._busy = False
        self._looking = False
        self._failures = 0
        self._round_from = 0
        self._rolled_at = 0
        self._rolled_lsn = 0
        self._rolled_from = 0
        self._topics: list[Topic] = []
        self._seals = SealWaiters()
        self.disk_full: DiskFull | None = None
        self.free_bytes: int | None = None
        """On the log's disk, as of the last look; None when it could not be read."""
        self._next_at = 0
        self._stopped = False

    @property
    def floor_bytes(self) -> int:
        """The free space below which produce is refused."""
        return self._options.free_bytes_min

    @property
    def pending(self) -> bool:
        return self._seals.has_new

    @property
    def next_at(self) -> int | None:
        """The next tick."""
        return None if self._stopped else self._next_at

    def start(self, now: int) -> None:
        """The log is folded: remove the remnants of an earlier process, then tick."""
        self._next_at = now + self._options.tick_ms
        self._rolled_at = now
        if not self._busy:
            self._busy = True
            self._adoption.clean(self._finished)
        self._look_at_disk()

    def stop(self) -> None:
        """No more ticks and rounds."""
        self._stopped = True
        if self._housekeeper is not None:
            self._housekeeper.stop()

    def submit(self, request: SealRequest) -> None:
        if self._housekeeper is None:
            request.reply(NotConfirmed("this broker runs without housekeeping, so nothing is ever sealed"))
        else:
            self._seals.add(request)

    def reject(self, error: DriftQError) -> None:
        """Also requests that wait for a round: nothing more is sealed."""
        self._seals.fail(error)

    def decide(self, turn: Turn) -> None:
        now = turn.now
        if turn.stopping:
            return
        if self._seals.has_new:
            self._seal(now)
        if turn.quiet or now < self._next_at:
            return
        self._next_at = now + self._options.tick_ms
        self._trim_some(turn)
        if now - self._rolled_at >= self._options.roll_ms:
            if self._log.last_lsn > self._rolled_lsn:
                self._roll(now)
            self._rolled_at = now
        elif self._seals.latest > self._log.sealed:
            self._roll(now)  # The roll that was to seal it was lost with a commit that failed.
        self._look_at_disk()
        self._start_round(now)

    def committed(self, now: int) -> None:
        """Records were written, perhaps to a new segment."""
        self._start_round(now)

    def _roll(self, now: int) -> None:
        self._journal.roll(SegmentRolled(at=now))
        self._rolled_lsn = self._log.last_lsn + 1
        self._rolled_from = self._log.confirmed.segment

    def _seal(self, now: int) -> None:
        """Seal everything confirmed, if it is not sealed, and wait for the round after that."""
        end = self._log.confirmed
        if end.lsn == self._rolled_lsn and end.segment > self._rolled_from:
            self._seals.wait_for(end.segment - 1)  # Nothing was written since it was rolled.
        else:
            self._seals.wait_for(end.segment)
            self._roll(now)
        self._seals.reached(self._journal.adopted)
        self._start_round(now)

    # Retention

    def _trim_some(self, turn: Turn) -> None:
        """Look at the next topics, few enough to keep a tick short."""
        state = turn.state
        if not self._topics:
            self._topics = list(state.topics.values())
        looked = 0
        while self._topics and looked < PARTITIONS_A_TICK:
            topic = self._topics.pop()
            if state.topics_by_id.get(topic.id) is not topic:
                continue
            looked += len(topic.partitions)
            record = decide_retention(state, topic, now=turn.now, wall=turn.wall)
            if record is None:
                continue
            before = [part.index.first for part in topic.partitions]
            self._journal.add(record)
            self._counters.trimmed += sum(trim.first - before[trim.partition] for trim in record.trims)
            lost = sum(trim.lost for trim in record.trims)
            if lost:
                self._counters.dropped_unsettled += lost
                logger.warning(
                    "topic %s is over its retention_bytes: %d unsettled messages dropped", topic.name, lost
                )

    # The disk

    def _look_at_disk(self) -> None:
        if not self._looking:
            self._looking = True
            self._background.read(self._measure, self._measured)

    def _measure(self) -> int:
        free = self._log.folder.free_bytes()
        if free >= self._options.free_bytes_min:
            self._log.prepare()
        return free

    def _measured(self, free: int | Exception) -> None:
        self._looking = False
        was = self.disk_full
        floor = self._options.free_bytes_min
        self.free_bytes = None if isinstance(free, Exception) else free
        if self.free_bytes is not None and self.free_bytes >= floor:
            self._background.repeat(self._log.fill_spare)
        if isinstance(free, OSError) and free.errno in _NO_SPACE:
            self.disk_full = DiskFull(free_bytes=0, floor_bytes=floor)
        elif isinstance(free, Exception):
            logger.warning("the free space on the log's disk cannot be read: %s", free)
        else:
            self.disk_full = DiskFull(free_bytes=free, floor_bytes=floor) if free < floor else None
        if self.disk_full is not None and was is None:
            logger.error("produce is refused from now on: %s", self.disk_full)
        elif self.disk_full is None and was is not None:
            logger.warning("the disk has free space again: produce is accepted")

    # Rounds

    def _start_round(self, now: int) -> None:
        sealed = self._log.sealed
        if (
            self._busy
            or self._housekeeper is None
            or now < self._round_from
            or sealed <= self._journal.adopted
        ):
            return
        self._busy = True
        self._housekeeper.run(sealed, lambda trouble: self._round_over(trouble, now))

    def _round_over(self, trouble: str | None, began: int) -> None:
        if trouble is not None:
            self._failures += 1
            wait_ms = doubled(_RETRY_MS, self._failures - 1, cap=_RETRY_MS_MAX)
            self._round_from = max(began, self._next_at) + wait_ms
            self._counters.round_failures += 1
            logger.error("housekeeping failed and is tried again in %d s: %s", wait_ms // 1000, trouble)
            self._seals.fail(NotConfirmed(f"housekeeping failed: {trouble}"))
            self._finished(None)
            return
        self._failures = 0
        self._counters.rounds += 1
        self._adoption.start(self._finished)

    def _finished(self, trouble: str | None) -> None:
        self._busy = False
        if trouble is not None:
            logger.error("the housekeeper's files could not be adopted: %s", trouble)
        self._seals.reached(self._journal.adopted)
        self._want_turn()
