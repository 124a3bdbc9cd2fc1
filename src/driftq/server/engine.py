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
from collections.abc import Callable

from driftq.core.state import State
from driftq.errors import (
    DriftQError,
    LogCorrupt,
    LogError,
    NotConfirmed,
    ShuttingDown,
    Unavailable,
    WritingStopped,
)
from driftq.log.log import Log
from driftq.log.recovery import Recovery
from driftq.server.counters import Counters
from driftq.server.deliveries import Deliveries
from driftq.server.dispatcher import Dispatcher
from driftq.server.gathering import Gathering
from driftq.server.journal import Journal
from driftq.server.outbox import Outbox
from driftq.server.parcel import Parcel
from driftq.server.payloads import Payloads
from driftq.server.ports import Alarm, Background, Clock, Consumer, Loop, SyncLost
from driftq.server.recaller import Recaller
from driftq.server.requests import (
    AckRequest,
    ProduceRequest,
    ReadRequest,
    Reply,
    SeldomRequest,
    Waiting,
)
from driftq.server.timers import Timers

COMMIT_BYTES_MAX = 8 << 20

logger = logging.getLogger("driftq.engine")


class Engine:
    """Everything the broker does happens in `_turn`, on one thread."""

    def __init__(
        self,
        log: Log,
        *,
        new_state: Callable[[], State],
        clock: Clock,
        loop: Loop,
        background: Background,
        on_fatal: Callable[[Exception], None],
    ) -> None:
        self.clock = clock
        self.counters = Counters()
        self.payloads = Payloads(log)
        self._log = log
        self._loop = loop
        self._background = background
        self._on_fatal = on_fatal
        self._journal = Journal(log, self.payloads, new_state=new_state)
        self._timers = Timers()
        self._dispatcher = Dispatcher()
        self._produces: list[ProduceRequest] = []
        self._acks: list[AckRequest] = []
        self._seldom: list[SeldomRequest] = []
        self._reads: list[ReadRequest] = []
        self._waiting = Waiting([])
        self._parcels: list[tuple[Outbox, Parcel]] = []
        self._committing = False
        self._turn_asked = False
        self._alarm: Alarm | None = None
        self._alarm_at: int | None = None
        self._refusal: Unavailable | None = None
        self._on_idle: list[Callable[[], None]] = []
        self._gathering = Gathering(
            self._journal, self._dispatcher, self._timers, counters=self.counters, new_outbox=self._new_outbox
        )
        self._recall = Recaller(
            self._journal, self.payloads, background, again=self._recalled, on_damage=self.damaged
        )
        self._deliveries = Deliveries(self._journal, self._dispatcher, self._timers, self.counters)

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
        self._after_fold()
        return found

    def produce(self, request: ProduceRequest) -> None:
        if self._accepts(request.reply):
            self._produces.append(request)

    def ack(self, request: AckRequest) -> None:
        if self._accepts(request.reply):
            self._acks.append(request)

    def ask(self, request: SeldomRequest) -> None:
        """Anything that changes the state and is not hot."""
        if self._accepts(getattr(request, "reply", None)):
            self._seldom.append(request)

    def read(self, request: ReadRequest) -> None:
        self._reads.append(request)
        self.want_turn()

    def drained(self, topic: str, group: str) -> None:
        """A consumer of this group has room again."""
        self._dispatcher.wake(topic, group)
        self.want_turn()

    def stop(self, done: Callable[[], None]) -> None:
        """Accept nothing more; `done` is called when everything accepted is durable and answered."""
        if self._refusal is None:
            self._refusal = ShuttingDown()
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
        if not self._turn_asked and not self._committing:
            self._turn_asked = True
            self._loop.soon(self._turn)

    def _turn(self) -> None:
        self._turn_asked = False
        if self._committing:
            return
        now = self.clock.now()
        self._answer_reads()
        if not isinstance(self._refusal, WritingStopped):
            self._decide(now)
        frames = self._journal.take()
        if frames:
            self._committing = True
            self.counters.commits += 1
            waiting, self._waiting = self._waiting, Waiting([])
            parcels, self._parcels = self._parcels, []
            self._set_alarm()
            self._background.commit(frames, lambda error: self._committed(error, waiting, parcels))
            return
        waiting, self._waiting = self._waiting, Waiting([])
        waiting.release()
        self._set_alarm()
        if self._has_requests():
            self.want_turn()
        elif self._on_idle and not self._recall.waiting:
            done, self._on_idle = self._on_idle, []
            for call in done:
                self._loop.soon(call)

    def _decide(self, now: int) -> None:
        self.state.keys.expire(now)
        replies = self._waiting.replies
        seldom, self._seldom = self._seldom, []
        for request in seldom:
            self._gathering.seldom(request, replies, now)
        acks, self._acks = self._acks, []
        if acks:
            self._gathering.acks(acks, replies, now)
        self._deliveries.end_expired(now)
        if self._produces:
            ready = self._recall.warm(self._take_produces())
            self._gathering.produces(ready, replies, now, recall=self._recall.recall)
            self._recall.forget()
        if self._refusal is None:
            self._parcels += self._deliveries.deal(now)

    def _recalled(self, request: ProduceRequest, error: NotConfirmed | None) -> None:
        """A produce has what it waited for, or an error. It was accepted before, so a stop waits for it."""
        if isinstance(self._refusal, WritingStopped):
            error = error or NotConfirmed(str(self._refusal))
        if error is None:
            self._produces.append(request)
        else:
            request.reply(error)
        self.want_turn()

    def _take_produces(self) -> list[ProduceRequest]:
        """As many as make one commit of a bounded size."""
        size = 0
        for count, request in enumerate(self._produces):
            size += sum([len(command.entry) for command in request.commands])
            if size > COMMIT_BYTES_MAX:
                taken = self._produces[: count + 1]
                del self._produces[: count + 1]
                return taken
        taken, self._produces = self._produces, []
        return taken

    def _has_requests(self) -> bool:
        return bool(self._produces or self._acks or self._seldom or self._reads)

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

    def _committed(
        self, error: OSError | None, waiting: Waiting, parcels: list[tuple[Outbox, Parcel]]
    ) -> None:
        self._committing = False
        if error is not None:
            self._failed(error, waiting)
            return
        self._turn()  # The next commit is on its way to the disk while the answers of this one go out.
        waiting.release()
        for outbox, parcel in parcels:
            outbox.put(parcel)

    def _failed(self, error: OSError, waiting: Waiting) -> None:
        self.counters.commit_failures += 1
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
        self._dispatcher.restart(self.state)
        self._set_alarm()
        self.want_turn()

    def _stop_writing(self, cause: str) -> None:
        """From now on everything is refused, reads too: the state may be ahead of the disk for good."""
        refusal = self._refusal = WritingStopped(cause)
        self._timers.clear()  # Nothing ends a lease any more; a past alarm would ring for ever.
        produces, self._produces = self._produces, []
        acks, self._acks = self._acks, []
        seldom, self._seldom = self._seldom, []
        for request in (*produces, *acks, *seldom):
            reply = getattr(request, "reply", None)
            if reply is not None:
                reply(refusal)

    # Time

    def _set_alarm(self) -> None:
        at = self._timers.next_at()
        if at == self._alarm_at:
            return
        if self._alarm is not None:
            self._alarm.cancel()
        self._alarm_at = at
        self._alarm = self._loop.at(at, self._rang) if at is not None else None

    def _rang(self) -> None:
        self._alarm = None
        self._alarm_at = None
        self.want_turn()

    def _new_outbox(self, consumer: Consumer) -> Outbox:
        return Outbox(consumer, payloads=self.payloads, background=self._background, on_damage=self.damaged)

    def damaged(self, damage: LogCorrupt) -> None:
        """A message on disk is not what was written: the server must not go on."""
        self._stop_writing(str(damage))
        self._on_fatal(damage)
