"""The single writer: gathers what was asked, decides it in one turn, commits, then answers.

    asked ─▶ queues ─▶ turn: reads · topics, consumers · acks · expiries · produces · deliveries
                         │                                                            │
              answers ◀──┴── released when the commit is durable ◀── write + sync ◀───┘

One commit is under way at a time. While it is, requests wait undecided, so a turn always begins with a state
that is wholly on disk: that is what reads see. If a commit fails, everything that waits for it is answered
"not confirmed", the log is cut back and the state is folded again from what is left.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Callable

from driftq.core.state import State
from driftq.errors import (
    DriftQError,
    LogError,
    NotConfirmed,
    ShuttingDown,
    Unavailable,
    WritingStopped,
)
from driftq.housekeeping.process import Housekeeper
from driftq.log.log import Log
from driftq.log.recovery import Recovery
from driftq.model import StreamView
from driftq.model.options.limits import Limits
from driftq.server.clock import report_log_ahead
from driftq.server.counters import Counters
from driftq.server.deliver.consumers import Consumers
from driftq.server.deliver.outbox import Outbox
from driftq.server.deliver.stage import Deliveries, Parcels
from driftq.server.deliver.timers import Timers
from driftq.server.desks import Desks
from driftq.server.dlq.stage import LetterAsk
from driftq.server.effects.stage import EffectAsk
from driftq.server.jobs.requests import JobAsk
from driftq.server.jobs.views import JobReader
from driftq.server.lookup import MessageLookup
from driftq.server.maintenance.stage import Maintenance, MaintenanceOptions
from driftq.server.ports import Background, Clock, ConsumerStream, Loop, SyncLost
from driftq.server.produce.queue import Intake
from driftq.server.produce.stage import Producing
from driftq.server.reading import Damage, Reading
from driftq.server.requests import (
    AckRequest,
    PendingReplies,
    ProduceRequest,
    ReadRequest,
    Reply,
    SeldomRequest,
)
from driftq.server.settle.dead_letters import DeadLettering
from driftq.server.settle.stage import Gathering
from driftq.server.wakeup import CommitBackoff, Wakeup
from driftq.storage.journal import Journal
from driftq.storage.payloads import Payloads

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
        draw: Callable[[], float] = random.random,
        upkeep: MaintenanceOptions | None = None,
        housekeeper: Housekeeper | None = None,
    ) -> None:
        self.clock = clock
        self.counters = Counters()
        self.payloads = Payloads(log)
        self.reading = Reading(self.damaged)
        self._log = log
        self._loop = loop
        self._background = background
        self._on_fatal = on_fatal
        self._journal = Journal(log, self.payloads, limits=limits)
        self._timers = Timers()
        self._consumers = Consumers()
        self._acks: list[AckRequest] = []
        self._seldom: list[SeldomRequest] = []
        self._reads: list[ReadRequest] = []
        self._waiting = PendingReplies([])
        self._parcels: Parcels = []
        self._committing = False
        self._turn_asked = False  # A turn is on its way, or wanted as soon as the commit is over.
        self._bell = Wakeup(loop, self.want_turn)
        self._refusal: Unavailable | None = None
        self._setbacks = CommitBackoff()
        self._on_idle: list[Callable[[], None]] = []
        self._lookup = MessageLookup(self._journal, self.payloads, background, on_damage=self.damaged)
        self._intake = Intake(self._lookup, come_back=self._come_back)
        letters = DeadLettering(self._journal, self._lookup, self._consumers, self.counters)
        self._gathering = Gathering(
            self._journal,
            self._consumers,
            self._timers,
            counters=self.counters,
            letters=letters,
            lookup=self._lookup,
            new_outbox=self._new_outbox,
            draw=draw,
            again=lambda request, error: self._come_back(
                lambda: self._seldom.append(request), request.reply, error
            ),
        )
        self._producing = Producing(self._journal, self._consumers, self.counters)
        self.desks = Desks(
            self._journal,
            self._lookup,
            self._consumers,
            counters=self.counters,
            draw=draw,
            come_back=self._come_back,
        )
        self.job_reader = JobReader(self._lookup, state=lambda: self.state, want_turn=self.want_turn)
        self._deliveries = Deliveries(
            self._journal,
            self._consumers,
            self._timers,
            letters=letters,
            lookup=self._lookup,
            effects=self.desks.effects,
            counters=self.counters,
            draw=draw,
            want_turn=self.want_turn,
        )
        self.upkeep = Maintenance(
            log,
            self._journal,
            loop=loop,
            background=background,
            counters=self.counters,
            options=upkeep or MaintenanceOptions(),
            housekeeper=housekeeper,
            want_turn=self.want_turn,
        )

    # What the outside asks

    @property
    def state(self) -> State:
        return self._journal.state

    @property
    def refusal(self) -> Unavailable | None:
        """Why nothing is accepted, or None when all is well."""
        return self._refusal

    def start(self) -> Recovery:
        """Fold the log; from here on the engine works."""
        found = self._journal.recover()
        self.upkeep.start(self.clock.now())
        self._after_fold()
        report_log_ahead(self.clock)
        return found

    def produce(self, request: ProduceRequest) -> None:
        if self.upkeep.disk_full is not None:
            request.reply(self.upkeep.disk_full)
        elif self._accepts(request.reply):
            self._intake.asked.append(request)

    def ack(self, request: AckRequest) -> None:
        if self._accepts(request.reply):
            self._acks.append(request)

    def ask(self, request: SeldomRequest) -> None:
        """Anything that changes the state and is not hot."""
        if self._accepts(getattr(request, "reply", None)):
            self._seldom.append(request)

    def ask_desk(self, request: JobAsk | EffectAsk | LetterAsk) -> None:
        """Anything about jobs, effects and dead letters."""
        if self._accepts(request.reply):
            self.desks.ask(request)

    def read(self, request: ReadRequest) -> None:
        self._reads.append(request)
        self.want_turn()

    def seal(self, reply: Reply) -> None:
        """Let snapshot, tables and history have everything that is durable now; answered when they do."""
        if self._accepts(reply):
            self.upkeep.seal(reply)

    def streams(self, topic: str) -> list[StreamView]:
        """The open streams of a topic, as they are now."""
        return self._consumers.streams(topic)

    def drained(self, topic: str, group: str) -> None:
        """A consumer of this group has room again."""
        self._consumers.wake(topic, group)
        self.want_turn()

    def stop(self, done: Callable[[], None]) -> None:
        """Accept nothing more; `done` is called when everything accepted is durable and answered."""
        if self._refusal is None:
            self._refusal = ShuttingDown()
            self.desks.jobs.release_waiting()
        self.upkeep.refuse(self._refusal)
        self.upkeep.stop()
        self._on_idle.append(done)
        self.want_turn()

    def _accepts(self, reply: Reply | None) -> bool:
        if self._refusal is None:
            self.want_turn()
            return True
        if reply is not None:
            reply(self._refusal)
        return False

    # The turn

    def want_turn(self) -> None:
        """Whoever changes anything that a turn looks at says so here."""
        if not self._turn_asked:
            self._turn_asked = True
            if not self._committing:
                self._loop.soon(self._turn)

    def _turn(self) -> None:
        self._turn_asked = False
        if self._committing:
            return
        now = self.clock.now()
        self._answer_reads()
        if not isinstance(self._refusal, WritingStopped):
            try:
                self._decide(now)
            except Exception as mistake:
                self._fell(mistake)
                raise
        frames = self._journal.take()
        if frames:
            self._committing = True
            self.counters.commits += 1
            self.counters.committed_bytes += sum(frame.size for frame in frames)
            waiting, self._waiting = self._waiting, PendingReplies([])
            parcels, self._parcels = self._parcels, []
            self._turn_asked = self._has_requests() or self._consumers.is_awake or bool(self._on_idle)
            self._set_alarm()
            self._background.commit(frames, lambda error: self._committed(error, waiting, parcels))
            return
        waiting, self._waiting = self._waiting, PendingReplies([])
        waiting.release()
        self._set_alarm()
        if self._has_requests():
            self.want_turn()
        elif self._on_idle and not self._lookup.waiting:
            while self._on_idle:
                self._loop.soon(self._on_idle.pop(0))

    def _fell(self, mistake: Exception) -> None:
        """A mistake of ours: what memory holds is no longer to be trusted, so the server ends, loudly."""
        logger.critical("a decision failed in a way it never should: %r", mistake)
        waiting, self._waiting = self._waiting, PendingReplies([])
        self._parcels = []
        waiting.fail(NotConfirmed(f"internal: {mistake!r}"))
        self._stop_writing(f"internal: {mistake!r}")
        self._on_fatal(mistake)

    def _decide(self, now: int) -> None:
        wall = self.clock.wall()
        self.state.keys.expire(now)
        replies = self._waiting.replies
        seldom, self._seldom = self._seldom, []
        for request in seldom:
            self._gathering.seldom(request, replies, now)
        acks, self._acks = self._acks, []
        if acks:
            self._gathering.acks(acks, replies, now)
        quiet = now < self._setbacks.quiet_until
        if not quiet:
            self._deliveries.end_expired(now)
        self.desks.turn(replies, now, wall=wall, quiet=quiet)
        if self._intake.asked:
            ready, new_keys = self._intake.take(self.state.keys)
            recall = self._lookup.recall
            self._producing.produces(ready, replies, now, wall=wall, recall=recall, new_keys=new_keys)
        if self._refusal is None and not quiet:
            self._parcels += self._deliveries.deal(now, wall=wall)
            self.upkeep.decide(now, wall=wall)
        self._lookup.forget()

    def _come_back(self, put: Callable[[], None], reply: Reply, error: NotConfirmed | None) -> None:
        """A request has what it waited for, or an error. It was accepted before, so a stop waits for it."""
        if isinstance(self._refusal, WritingStopped):
            error = error or NotConfirmed(str(self._refusal))
        if error is None:
            put()
        else:
            reply(error)
        self.want_turn()

    def _has_requests(self) -> bool:
        return bool(self._intake.asked or self._acks or self._seldom or self._reads or self.desks.is_asked())

    def _answer_reads(self) -> None:
        reads, self._reads = self._reads, []
        for read in reads:
            try:
                if isinstance(self._refusal, WritingStopped):
                    raise self._refusal
                answer = read.query(self.state)
            except DriftQError as refused:
                answer = refused
            read.reply(answer)

    # The commit

    def _committed(self, error: OSError | None, waiting: PendingReplies, parcels: Parcels) -> None:
        self._committing = False
        wanted, self._turn_asked = self._turn_asked or self._setbacks.quiet_until, False
        if error is not None:
            self._failed(error, waiting)
            return
        self._setbacks.over()
        self.upkeep.committed(self.clock.now())
        if wanted:
            self._turn()  # The next commit is on its way to the disk while the answers of this one go out.
        waiting.release()
        for outbox, parcel in parcels:
            outbox.put(parcel)

    def _failed(self, error: OSError, waiting: PendingReplies) -> None:
        self.counters.commit_failures += 1
        self._setbacks.failed(self.clock.now())
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
            self._after_fold()
        waiting.fail(NotConfirmed(str(error)))
        self.want_turn()

    def _after_fold(self) -> None:
        self.clock.not_below(self.state.last_at)
        self._timers.clear()
        for group in self.state.groups_by_id.values():
            for partition in range(len(group.partitions)):
                self._timers.note(group, partition)
        self._consumers.restart(self.state)
        self._set_alarm()
        self.want_turn()

    def _stop_writing(self, cause: str) -> None:
        """From now on everything is refused, reads too: the state may be ahead of the disk for good."""
        refusal = self._refusal = WritingStopped(cause)
        self._timers.clear()  # Nothing ends a lease any more; a past alarm would ring for ever.
        asked = [*self._intake.take_all(), *self._acks, *self._seldom]
        self._acks, self._seldom = [], []
        self.desks.refuse(refusal)
        self.upkeep.refuse(refusal)
        for request in asked:
            reply = getattr(request, "reply", None)
            if reply is not None:
                reply(refusal)

    # Time

    def _set_alarm(self) -> None:
        upkeep = self.upkeep.next_at if self._refusal is None else None
        deal_at = self._consumers.next_at() if self._consumers.alarms and self._refusal is None else None
        times = (self._timers.next_at(), deal_at, self.desks.jobs.next_at(), upkeep)
        at = min((one for one in times if one is not None), default=None)
        quiet_until = self._setbacks.quiet_until
        if quiet_until and self.clock.now() < quiet_until:
            at = quiet_until
        if isinstance(self._refusal, WritingStopped):
            at = None  # Nothing ends any more; an alarm that is past would ring for ever.
        self._bell.set(at)

    def _new_outbox(self, consumer: ConsumerStream) -> Outbox:
        return Outbox(consumer, payloads=self.payloads, background=self._background, on_damage=self.damaged)

    def damaged(self, damage: Damage) -> None:
        """A message or an event on disk is not what was written: the server must not go on."""
        self._stop_writing(str(damage))
        self._on_fatal(damage)
