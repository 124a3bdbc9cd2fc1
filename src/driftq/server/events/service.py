"""The event store behind the event loop: SQL runs on a thread of its own, and the loop never waits for it.

Appends that wait for the thread share one transaction, each with its own reply. Reads that wait for an event
are asked again when an append has committed. The first request that needs the store opens it. While its
database is unreachable, every request is answered with Unavailable, and the next one tries again.

A damaged event is answered with EventDamaged and logged. In a SQLite file that stops the server, as damage in
the log does. A PostgreSQL database has other clients, which would not stop with this server, and its own
administrator: there only the request fails.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from driftq.errors import DatabaseDamaged, EventDamaged, ShuttingDown
from driftq.eventstore.opening import OpenEvents, open_events
from driftq.model import Event
from driftq.model.options.events import EventOptions
from driftq.server.events.waiting import OTHERS_S, EndWait, EventWaitRequest
from driftq.server.ports import Clock

if TYPE_CHECKING:
    from driftq.eventstore import Appended, EventStore, Refused
    from driftq.eventstore.seal.sealer import Sealing

_T = TypeVar("_T")

logger = logging.getLogger("driftq.events")

GATHERED_EVENTS = 64
"""Events in one transaction."""


@dataclass(frozen=True, slots=True)
class EventAppendRequest:
    """The events of one caller, each with its expected_seq. `reply` gets a result for each, or one error."""

    commands: Sequence[tuple[Event, int | None]]
    reply: Callable[[list[Appended | Refused] | Exception], None]


@dataclass(frozen=True, slots=True)
class EventQueryRequest(Generic[_T]):
    """A read, or a change of a group. `placed`: events appended before it need log positions first.

    `wakes`: the reads that wait may have another answer afterwards.
    """

    query: Callable[[EventStore], _T]
    reply: Callable[[_T | Exception], None]
    placed: bool = False
    wakes: bool = False


_Request = EventAppendRequest | EventQueryRequest[Any] | EventWaitRequest[Any] | EndWait


class EventsService:
    """Takes requests on the loop and answers them there."""

    def __init__(
        self,
        options: EventOptions,
        *,
        loop: asyncio.AbstractEventLoop,
        on_damage: Callable[[EventDamaged | DatabaseDamaged], None],
        clock: Clock | None = None,
    ) -> None:
        """`on_damage` is called on the loop, after the reply, when a SQLite file is damaged.

        `clock` gives the time of events that carry none; the machine's clock by default.
        """
        self._options = options
        self._clock = clock
        self._on_damage = on_damage
        self._loop = loop
        self._requests: SimpleQueue[_Request | None] = SimpleQueue()
        self._left: list[_Request | None] = []
        """A request that was taken from the queue and waits for its turn."""
        self._waiting: dict[EventWaitRequest[Any], None] = {}
        """The reads that wait now, in the order in which they came."""
        self._events: OpenEvents | None = None
        self._sealing: Sealing | None = None
        self._thread: threading.Thread | None = None
        self._stopped = False

    def append(self, request: EventAppendRequest) -> None:
        self._put(request)

    def read(self, request: EventQueryRequest[Any]) -> None:
        self._put(request)

    def wait(self, request: EventWaitRequest[Any]) -> Callable[[], None]:
        """A read that may wait; returns what to call when its client disconnects."""
        if request.wait_ms:
            given = request.reply

            def reply(result: Any) -> None:
                timer.cancel()
                given(result)

            request = replace(request, reply=reply)
            timer = self._loop.call_later(request.wait_ms / 1000, self._requests.put, EndWait(request))
        self._put(request)
        return lambda: self._requests.put(EndWait(request, lost=True))

    def stop(self) -> None:
        """Answer the queued requests, then close. Waits for the thread, which waits for the database."""
        self._stopped = True
        if self._thread is not None:
            self._requests.put(None)
            self._thread.join()

    def _put(self, request: _Request) -> None:
        if self._stopped:
            raise ShuttingDown
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name="driftq-events", daemon=True)
            self._thread.start()
        self._requests.put(request)

    # The thread's side

    def _work(self) -> None:
        while (request := self._next()) is not None:
            match request:
                case EventAppendRequest():
                    self._append(self._gather(request))
                case EventQueryRequest():
                    self._read(request)
                case EventWaitRequest():
                    self._first_look(request)
                case EndWait():
                    self._end_wait(request)
        for waiting in list(self._waiting):
            self._end_wait(EndWait(waiting))
        if self._sealing is not None:
            self._sealing.stop()
        if self._events is not None:
            self._events.close()

    def _next(self) -> _Request | None:
        if self._left:
            return self._left.pop()
        if not self._waiting or self._events is None or self._events.alone:
            return self._requests.get()
        while True:
            try:
                return self._requests.get(timeout=OTHERS_S)
            except Empty:
                self._look_again()

    def _gather(self, first: EventAppendRequest) -> list[EventAppendRequest]:
        """More queued appends, as many as fit; the next request stays queued."""
        gathered = [first]
        size = len(first.commands)
        while size < GATHERED_EVENTS and not self._requests.empty():
            request = self._requests.get()  # This thread is the only consumer.
            if not isinstance(request, EventAppendRequest) or size + len(request.commands) > GATHERED_EVENTS:
                self._left.append(request)
                break
            gathered.append(request)
            size += len(request.commands)
        return gathered

    def _append(self, requests: list[EventAppendRequest]) -> None:
        try:
            store = self._open().store
            from driftq.eventstore import Append  # Not before the extra is known to be installed.

            answers = store.append_many(
                [[Append(*command) for command in request.commands] for request in requests]
            )
        except Exception as error:  # noqa: BLE001 (the requests get it)
            for request in requests:
                self._answer(request.reply, error)
            self._look_for_damage(error)
            return
        self._answer(_reply_each, list(zip(requests, answers, strict=True)))
        if self._sealing is not None:
            self._sealing.wake()
        self._look_again()

    def _read(self, request: EventQueryRequest[Any]) -> None:
        try:
            events = self._open()
            if request.placed:
                self._place()
            result = request.query(events.store)
        except Exception as error:  # noqa: BLE001 (the request gets it)
            result = error
        self._answer(request.reply, result)
        self._look_for_damage(result)
        if request.wakes:
            self._look_again()

    def _look_again(self) -> None:
        """Ask the reads that wait: there may be events for them."""
        if not self._waiting:
            return
        try:
            self._place()
        except Exception as error:  # noqa: BLE001 - the reads go on waiting, and the sealer logs it
            logger.debug("events have no positions yet: %s", error)
            return
        for request in list(self._waiting):
            self._look(request, final=False)

    def _first_look(self, request: EventWaitRequest[Any]) -> None:
        try:
            self._open()
            self._place()
        except Exception as error:  # noqa: BLE001 (the request gets it)
            self._answer(request.reply, error)
        else:
            self._look(request, final=not request.wait_ms)

    def _look(self, request: EventWaitRequest[Any], *, final: bool) -> None:
        try:
            result = request.query(self._open().store, final)
        except Exception as error:  # noqa: BLE001 (the request gets it)
            result = error
        if result is None:
            self._waiting[request] = None
            return
        self._waiting.pop(request, None)
        self._answer(request.reply, result)
        self._look_for_damage(result)

    def _place(self) -> None:
        if self._sealing is not None:
            self._sealing.place()

    def _end_wait(self, end: EndWait) -> None:
        waited = end.request in self._waiting
        self._waiting.pop(end.request, None)
        if waited and not end.lost:
            self._look(end.request, final=True)

    def _look_for_damage(self, result: object) -> None:
        if isinstance(result, EventDamaged | DatabaseDamaged):
            self._damaged(result)

    def _damaged(self, damage: EventDamaged | DatabaseDamaged) -> None:
        """On the store's thread, or the sealer's."""
        logger.error("%s", damage)
        url = self._options.database_url
        if url is None or url.startswith("sqlite"):
            self._answer(self._on_damage, damage)

    def _open(self) -> OpenEvents:
        if self._events is None:
            self._events = open_events(self._options, now_ms=None if self._clock is None else self._clock.now)
            from driftq.eventstore.seal.sealer import Sealing  # As above: the extra is installed.

            self._sealing = Sealing(self._events.sealer, alone=self._events.alone, on_damage=self._damaged)
        return self._events

    def _answer(self, reply: Callable[[Any], None], result: object) -> None:
        try:
            self._loop.call_soon_threadsafe(reply, result)
        except RuntimeError:
            pass  # The loop is closed: no caller waits any more.


def _reply_each(answered: list[tuple[EventAppendRequest, list[Appended | Refused]]]) -> None:
    """On the loop: the replies of one transaction come over in one step."""
    for request, answers in answered:
        request.reply(answers)
