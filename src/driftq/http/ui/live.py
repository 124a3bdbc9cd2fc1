"""GET /v1/ui/live: the overview once a second, as server-sent events.

One task serves all streams of a server, and exists only while there is one. In each round it reads the state
once for everybody who sees all topics, and once more for each key that sees only some. A client that does not
read its stream misses rounds; it never gets two at once.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import msgspec

from driftq.core.state import State
from driftq.errors import DriftQError
from driftq.http.api.params import Form
from driftq.http.reads import state_of, walk_state
from driftq.http.ui.overview import walk_jobs_by_state, walk_totals
from driftq.http.ui.scope import VisibleScope
from driftq.http.wire.edge import Edge
from driftq.http.wire.exchange import EVENTS, LAST_CHUNK, Exchange, chunk, encode
from driftq.model.time import rfc3339
from driftq.model.wire.fields import Request
from driftq.model.wire.ui import LiveOverview, LivePoint, LiveRates
from driftq.server.counters import Counters
from driftq.server.effects.open_steps import count_unknown

NOTHING = Form(Request)
ROUND_S = 1.0
PAST_MAX = 180
STREAMS_MAX = 128
_HEARTBEAT = b": the broker is busy\n\n"
_RETRY = b"retry: 2000\n\n"


def live(exchange: Exchange) -> None:
    NOTHING.read(exchange.body, exchange.query)
    edge = exchange.edge
    if edge.live is None:
        edge.live = LiveFeed(edge)
    edge.live.join(OverviewStream(exchange, edge.live))


class OverviewStream:
    """One dashboard that is open."""

    def __init__(self, exchange: Exchange, feed: LiveFeed) -> None:
        self.exchange = exchange
        self.scope = VisibleScope.of(exchange)
        self.has_past = False
        self._feed = feed
        self._connection = exchange.connection
        self._chunked = not exchange.old

    def begin(self) -> None:
        head = self.exchange.edge.heads.stream(content_type=EVENTS, chunked=self._chunked, close=True)
        self._connection.begin(self.exchange, head, self)
        self._connection.listen_no_more()
        self.send(_RETRY)

    def send(self, content: bytes) -> None:
        if not self._connection.writing_paused:
            self._connection.write(chunk(content) if self._chunked else content)

    def end(self) -> None:
        """The server closes the stream; the browser asks again."""
        self._feed.leave(self)
        if self._chunked:
            self._connection.write(LAST_CHUNK)
        self._connection.close()

    def resumed(self) -> None:
        """The next round goes out."""

    def lost(self) -> None:
        self._feed.leave(self)


@dataclass(slots=True)
class _Counted:
    """The counters at one moment."""

    at: float
    counters: tuple[int, ...]


_RATES = (
    "produced",
    "delivered",
    "acked",
    "dead_lettered",
    "jobs_enqueued",
    "jobs_completed",
    "requests",
)


class LiveFeed:
    """The streams of one server, and the task that feeds them."""

    def __init__(self, edge: Edge, *, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._edge = edge
        self._monotonic = monotonic
        self._streams: dict[OverviewStream, None] = {}
        self._task: asyncio.Task[None] | None = None
        self._before: _Counted | None = None
        self._past: deque[LivePoint] = deque(maxlen=PAST_MAX)
        self.rounds = 0
        """How often the state was read."""

    def join(self, stream: OverviewStream) -> None:
        """Begin the stream; beyond a number of streams the oldest ends."""
        if len(self._streams) >= STREAMS_MAX:
            next(iter(self._streams)).end()
        self._streams[stream] = None
        stream.begin()
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._run())

    def leave(self, stream: OverviewStream) -> None:
        self._streams.pop(stream, None)
        if not self._streams and self._task is not None:
            self._task.cancel()
            self._task = self._before = None

    async def _run(self) -> None:
        while True:
            began = self._monotonic()
            await self._round()
            left_s = ROUND_S - (self._monotonic() - began)
            await asyncio.sleep(max(left_s, ROUND_S / 2))

    async def _round(self) -> None:
        self._close_ended()
        scopes = {stream.scope: stream.scope for stream in self._streams}
        for scope in scopes.values():
            try:
                overview = await self._overview(scope)
            except DriftQError:
                overview = None  # The broker is stopping, or cannot be read now.
            self._send(scope, overview)

    def _close_ended(self) -> None:
        guard = self._edge.guard
        if guard is not None:
            for stream in [one for one in self._streams if not guard.is_open(one.exchange)]:
                stream.end()

    def _send(self, scope: VisibleScope, overview: LiveOverview | None) -> None:
        """One text for all streams of a scope; those that are new also get the past."""
        streams = [stream for stream in self._streams if stream.scope == scope]
        if overview is None:
            for stream in streams:
                stream.send(_HEARTBEAT)
            return
        event = _event(overview)
        for stream in streams:
            if stream.has_past:
                stream.send(event)
            else:
                stream.has_past = True
                past = list(self._past)[:-1] if scope.is_whole else []
                stream.send(_event(_with_past(overview, past)) if past else event)

    async def _overview(self, scope: VisibleScope) -> LiveOverview:
        self.rounds += 1
        edge, engine = self._edge, self._edge.engine
        began = self._monotonic()
        await state_of(engine, lambda _: None)
        answer_ms = round((self._monotonic() - began) * 1000, 2)
        streams_of = engine.stages.consumers.streams
        totals = await walk_state(edge, partial(walk_totals, sees=scope.sees_topic, streams_of=streams_of))
        now, wall = edge.clock.now(), edge.clock.wall()
        jobs = partial(walk_jobs_by_state, now=now, wall=wall)

        def unknown_steps(state: State) -> int:
            return count_unknown(state.effects, now=now, tenant=scope.tenant)

        overview = LiveOverview(
            at=rfc3339(wall),
            rates=self._rates(edge.counters) if scope.is_whole else None,
            jobs=await walk_state(edge, jobs) if scope.sees_all_queues else None,
            unknown_steps=await state_of(engine, unknown_steps) if scope.sees_steps else 0,
            answer_ms=answer_ms,
            topics=totals.topics,
            groups=totals.groups,
            streams=totals.streams,
            messages=totals.messages,
            lag=totals.lag,
            in_flight=totals.in_flight,
            dead_letters=totals.dead_letters,
            slowest=totals.slowest,
            dead_letter_topics=totals.dead_letter_topics,
            stalled=totals.stalled,
            unread=totals.unread,
        )
        if overview.rates is not None:
            self._past.append(_point(overview, overview.rates))
        return overview

    def _rates(self, counters: Counters) -> LiveRates | None:
        """Per second since the round before; None in the first one."""
        now = _Counted(self._monotonic(), tuple(getattr(counters, name) for name in _RATES))
        before, self._before = self._before, now
        if before is None or now.at <= before.at:
            return None
        seconds = now.at - before.at
        differences = zip(now.counters, before.counters, strict=True)
        return LiveRates(*(round((new - old) / seconds, 1) for new, old in differences))


def _point(overview: LiveOverview, rates: LiveRates) -> LivePoint:
    return LivePoint(
        at=overview.at,
        produced=rates.produced,
        acked=rates.acked,
        dead_lettered=rates.dead_lettered,
        in_flight=overview.in_flight,
        lag=overview.lag,
        dead_letters=overview.dead_letters,
        answer_ms=overview.answer_ms,
    )


def _with_past(overview: LiveOverview, past: list[LivePoint]) -> LiveOverview:
    return msgspec.structs.replace(overview, past=past)


def _event(overview: LiveOverview) -> bytes:
    return b"event: overview\ndata: %b\n\n" % encode(overview)
