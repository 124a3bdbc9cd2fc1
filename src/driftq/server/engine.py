"""The single writer: it decides everything that was submitted in one turn, commits, then answers.

    submit ─▶ the stages' queues ─▶ turn: each stage decides, in order ─▶ records ─▶ write + sync
                                            │                                           │
                                            └─▶ Commit: answers and deliveries ─────────┴─▶ released

A turn runs on the loop's thread. It answers reads, then lets every stage turn its requests, and whatever is
due by now, into records. The journal folds each record into the state at once, so a later stage sees what an
earlier one decided. Answers and deliveries go into the turn's `Commit`, which is released when the records
are written and synced; without records at once.

While the disk is quick the loop writes them itself; requests wait in their sockets for the next turn. A slow
disk, a large commit and a new segment are for the writer thread (`io_threads.py`). On a slow disk the next
turn comes before the answers, so that its commit is on its way while they go out. That commit is never one of
the loop's: answers and deliveries leave in the order of the log.

One commit is under way at a time, and no turn runs meanwhile: requests queue up undecided. So a turn begins
with a state that is wholly on disk. The outside never sees memory that is ahead of the disk, because reads
are answered before anything is decided and the rest after it is durable.

A commit that fails is answered "not confirmed", and nothing of it is delivered. The log is cut back to the
last confirmed frame, and the state is folded from it once more. For a while, longer after each failure, turns
are quiet: they start nothing on their own. If the log cannot be cut back, writing stops.

A stage that needs a message which is not in memory calls `turn.requeue_when_read`: another thread reads the
message, then the request is submitted to its stage a second time, and a later turn decides it.

A stop refuses new requests. What was accepted before, with all that waits for a read, is decided, committed
and answered; then `done` is called. When writing stops, every queue is rejected and reads are refused too.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Callable

from driftq.core.state import State
from driftq.errors import DriftQError, LogError, NotConfirmed, ShuttingDown, Unavailable, WritingStopped
from driftq.housekeeping.process import Housekeeper
from driftq.log.log import Log
from driftq.log.recovery import Recovery
from driftq.model.options.limits import Limits
from driftq.server.clock import report_log_ahead
from driftq.server.counters import Counters
from driftq.server.maintenance.stage import MaintenanceOptions
from driftq.server.ports import Background, Clock, Damage, Loop, SyncLost
from driftq.server.requests import EngineRequest, ReadRequest
from driftq.server.stages import Stages
from driftq.server.turn import Commit, Turn
from driftq.server.wakeup import CommitBackoff, Wakeup
from driftq.storage.journal import Journal
from driftq.storage.payloads import Payloads
from driftq.telemetry.log_lines import frames_of

logger = logging.getLogger("driftq.engine")


class Engine:
    """Everything the broker does happens in `_turn`, on one thread."""

    def __init__(
        self,
        log: Log,
        *,
        limits: Limits,
        clock: Clock,
        loop: Loop,
        background: Background,
        on_fatal: Callable[[Exception], None],
        jitter: Callable[[], float] = random.random,
        maintenance: MaintenanceOptions | None = None,
        housekeeper: Housekeeper | None = None,
    ) -> None:
        self.clock, self._log, self._loop = clock, log, loop
        self._background, self._on_fatal = background, on_fatal
        self.counters, self.payloads = Counters(), Payloads(log)
        self._journal = Journal(log, self.payloads, limits=limits)
        self.stages = Stages(
            log,
            self._journal,
            self.payloads,
            loop=loop,
            background=background,
            counters=self.counters,
            jitter=jitter,
            maintenance=maintenance or MaintenanceOptions(),
            housekeeper=housekeeper,
            want_turn=self.want_turn,
            on_damage=self.damaged,
        )
        self.refusal: Unavailable | None = None  # Why nothing is accepted, or None when all is well.
        self._reads: list[ReadRequest] = []
        self._committing = self._turn_wanted = False  # Wanted: soon, or as soon as the commit is over.
        self._wakeup, self._backoff = Wakeup(loop, self.want_turn), CommitBackoff()
        self._on_idle: list[Callable[[], None]] = []

    @property
    def state(self) -> State:
        return self._journal.state

    def start(self) -> Recovery:
        """Fold the log; from here on the engine works."""
        found = self._journal.recover()
        self.stages.maintenance.start(self.clock.now())
        self._state_was_folded()
        report_log_ahead(self.clock)
        return found

    def submit(self, request: EngineRequest) -> None:
        """Queue a request for the next turn. It is answered when its outcome is durable."""
        if self.refusal is None:
            self.stages.by_request[type(request)].submit(request)
            if not self._turn_wanted:
                self.want_turn()
        else:
            request.reply(self.refusal)

    def read(self, request: ReadRequest) -> None:
        self._reads.append(request)
        self.want_turn()

    def stop(self, done: Callable[[], None]) -> None:
        """Accept nothing more; `done` is called when everything accepted is durable and answered."""
        self.refusal = self.refusal or ShuttingDown()
        self.stages.stop(self.refusal)
        self._on_idle.append(done)
        self.want_turn()

    def damaged(self, damage: Damage) -> None:
        """A stored message or event is damaged: the server must not go on."""
        self._stop_writing(str(damage))
        self._on_fatal(damage)

    def want_turn(self) -> None:
        """Have a turn soon, or as soon as the commit under way is over."""
        if not self._turn_wanted:
            self._turn_wanted = True
            if not self._committing:
                self._loop.soon(self._turn)

    def _turn(self, *, ahead: bool = False) -> None:  # Ahead: of the last commit's answers.
        self._turn_wanted = False
        if self._committing:
            return
        self._answer_reads()
        commit = Commit(self.counters) if isinstance(self.refusal, WritingStopped) else self._decide()
        frames = self._journal.take()
        if frames:
            commit.begin(self.counters, frames)
            waiting = self.stages.pending or self.stages.consumers.is_awake
            self._turn_wanted = bool(self._reads or self._on_idle or waiting)
            self._set_wakeup()
            if not ahead and self._background.commits_here(frames):
                self._committed(commit, self._background.commit_here(frames))
            else:
                self._committing = True
                self._background.commit(frames, lambda error: self._committed(commit, error))
            return
        commit.release()
        commit.measure(self.counters.histograms)
        self._set_wakeup()
        if self._reads or self.stages.pending:
            self.want_turn()
        elif self._on_idle and not self.stages.lookup.waiting:
            while self._on_idle:
                self._loop.soon(self._on_idle.pop(0))

    def _answer_reads(self) -> None:
        reads, self._reads = self._reads, []
        for read in reads:
            try:
                if isinstance(self.refusal, WritingStopped):
                    raise self.refusal
                answer = read.query(self.state)
            except DriftQError as refused:
                answer = refused
            read.reply(answer)

    def _decide(self) -> Commit:
        now = self.clock.now()
        quiet, stopping, wall = now < self._backoff.quiet_until, self.refusal is not None, self.clock.wall()
        turn = Turn(
            self._journal, self.stages, self.counters, now=now, wall=wall, quiet=quiet, stopping=stopping
        )
        try:
            self.stages.decide(turn)
        except Exception as mistake:  # A bug: memory can no longer be trusted, so the server stops.
            logger.critical("an unexpected error in a decision, the server stops:\n%s", frames_of(mistake))
            turn.commit.fail(NotConfirmed(f"internal: {mistake!r}"))
            self._stop_writing(f"internal: {mistake!r}")
            self._on_fatal(mistake)
            raise
        self.stages.lookup.forget()
        return turn.commit

    def _set_wakeup(self) -> None:
        """Have a turn when a stage needs one, and none before a quiet time is over."""
        quiet_until = self._backoff.quiet_until
        at = quiet_until if quiet_until and self.clock.now() < quiet_until else self.stages.next_at
        if isinstance(self.refusal, WritingStopped):
            at = None  # Nothing is decided any more: a past alarm would go off endlessly.
        self._wakeup.set(at)

    def _committed(self, commit: Commit, error: OSError | None) -> None:
        self._committing = False
        wanted, self._turn_wanted = self._turn_wanted or self._backoff.quiet_until, False
        if error is not None:
            self._failed(commit, error)
            return
        commit.durable(self.counters.histograms)
        if self._backoff.quiet_until:
            self._backoff.over()
        if self._log.sealed > self._journal.adopted:
            self.stages.maintenance.committed(self.clock.now())
        ahead = wanted and not self._background.may_commit_here
        if ahead:
            self._turn(ahead=True)
        commit.release()
        commit.measure(self.counters.histograms)
        if wanted and not ahead:
            self.want_turn()

    def _failed(self, commit: Commit, error: OSError) -> None:
        self.counters.commit_failures += 1
        self._backoff.failed(self.clock.now())
        logger.error("the log could not be written: %s", error)
        try:
            if isinstance(error, SyncLost):
                raise error
            self._log.cut_back()
            self._journal.recover()
        except (OSError, LogError) as broken:
            logger.critical("the log could not be cut back, writing stops: %s", broken)
            self._stop_writing(str(broken))
        else:
            self._state_was_folded()
        commit.fail(NotConfirmed(str(error)))
        self.want_turn()

    def _state_was_folded(self) -> None:
        self.clock.not_below(self.state.last_at)
        self.stages.state_was_folded(self.state)
        self._set_wakeup()
        self.want_turn()

    def _stop_writing(self, cause: str) -> None:
        """From now on everything is refused, reads too: the state may stay ahead of the disk."""
        self.refusal = WritingStopped(cause)
        self.stages.reject(self.refusal)
