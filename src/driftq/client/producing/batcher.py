"""Gathers what many callers ask, sends it in few requests over one connection, and keeps its order.

    put ─▶ waiting ─▶ batch ─▶ request ─▶ answer ─▶ each caller is told
              ▲                              │
              └── again, after a pause ◀── failed, and may be repeated

Whatever has come while the loop was busy goes in one batch: nothing is held back to make it larger, and what
is enough for a request does not wait for the loop, so that the server works while the rest is still being
put. Up to `requests_under_way` batches are sent ahead of their answers. When a request fails as a whole,
everything behind it waits until it has been repeated, so that messages keep their order. What is refused
alone comes again alone.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import Generic, cast

from driftq.client.backoff import RetryBackoff
from driftq.client.options import ClientOptions
from driftq.client.producing.entry import Entry, Item, Result, Waiter, tell_all
from driftq.client.wire.connection import ConnectionLost, HttpConnection, HttpResponse
from driftq.client.wire.connector import Connector
from driftq.client.wire.errors import is_passing
from driftq.errors import ClientClosed, DriftQError, ResourceExhausted, ServerUnreachable, UsedAfterFork
from driftq.forking import in_forked_child, leave_behind

Entries = list[Entry[Item, Result]]

ENOUGH = 250
"""Entries that are worth a request at once: else many callers and the server would only work in turns."""


class Batcher(Generic[Item, Result]):
    """One stream of batches to one endpoint."""

    def __init__(
        self,
        connector: Connector,
        options: ClientOptions,
        *,
        write: Callable[[Sequence[Item]], bytes],
        read: Callable[[int, bytes], Sequence[Result | DriftQError]],
    ) -> None:
        self._connector = connector
        self._options = options
        self._write = write
        self._read = read
        self._loop = asyncio.get_running_loop()
        self._waiting: deque[Entry[Item, Result]] = deque()
        self._again: Entries[Item, Result] = []
        self._held = 0
        self._held_bytes = 0
        self._held_max = options.buffer_messages
        self._held_bytes_max = options.buffer_bytes
        self.full = False
        """So much waits for its answer that callers should wait for room."""
        self._under_way = 0
        self._later = 0
        self._connection: HttpConnection | None = None
        self._connecting: asyncio.Task[None] | None = None
        self._pause: asyncio.TimerHandle | None = None
        self._flush_asked = False
        self._expires_at = 0.0
        self._backoff = RetryBackoff()
        self._room: deque[asyncio.Future[None]] = deque()
        self._emptied = asyncio.Event()
        self._closed = False
        self._left_to_parent = False
        in_forked_child(self._leave_to_parent)

    # What callers ask

    async def wait_for_room(self) -> None:
        """Hold the caller back while too much waits for its answer."""
        while self.full and not self._closed:
            room: asyncio.Future[None] = self._loop.create_future()
            self._room.append(room)
            await room

    def put(self, item: Item, size: int, waiter: Waiter[Item, Result], retries: int | None = None) -> None:
        """Send this; its waiter is told once, its result or its error."""
        if self._closed:
            if self._left_to_parent:
                raise UsedAfterFork("this delivery", instead="call consume() in this process")
            Entry(item, size, waiter, 0.0, retries).tell(ClientClosed())
            return
        if not self._flush_asked:
            self._ask_flush()
        self._held += 1
        self._held_bytes += size
        if self._held >= self._held_max or self._held_bytes >= self._held_bytes_max:
            self.full = True
        waiting = self._waiting
        waiting.append(Entry(item, size, waiter, self._expires_at, retries))
        if len(waiting) == ENOUGH:
            self._flush()

    def _ask_flush(self) -> None:
        """Once a turn of the loop: all that is put in it is sent together, and has the same time left."""
        self._flush_asked = True
        self._expires_at = self._loop.time() + self._options.timeout_s
        self._loop.call_soon(self._flush)

    async def flush(self) -> None:
        """Wait until everything put before has its answer."""
        if self._held:
            self._emptied.clear()
            await self._emptied.wait()

    def close(self) -> None:
        self._closed = True
        if self._pause is not None:
            self._pause.cancel()
        if self._connecting is not None:
            self._connecting.cancel()
        if self._connection is not None:
            self._connection.close()
        left = [*self._again, *self._waiting]
        self._again.clear()
        self._waiting.clear()
        for entry in left:
            self._finish(entry, ClientClosed())
        for room in self._room:
            if not room.done():
                room.set_result(None)

    def _leave_to_parent(self) -> None:
        """What waits here is sent by the parent; a child that sent it as well would send it twice."""
        leave_behind(self._connecting, self._pause)
        self._connecting = self._pause = self._connection = None
        self._waiting.clear()
        self._again.clear()
        self._room.clear()
        self._held = self._held_bytes = self._under_way = 0
        self._closed = True
        self._left_to_parent = True

    # Sending

    def _flush(self) -> None:
        self._flush_asked = False
        if self._closed or self._pause is not None:
            return
        if self._again:
            if self._under_way:
                return  # Those that were sent behind the failed ones are answered first.
            self._waiting.extendleft(reversed(self._again))
            self._again.clear()
        if not self._waiting:
            return
        connection = self._connection
        if connection is None or not connection.usable:
            if self._connecting is None and not self._under_way:
                self._connecting = self._loop.create_task(self._connect())
            return
        while self._waiting and self._under_way < self._options.requests_under_way:
            self._send(connection, self._take_batch())

    def _take_batch(self) -> Entries[Item, Result]:
        options, waiting = self._options, self._waiting
        if len(waiting) <= options.batch_messages:
            batch = list(waiting)
            waiting.clear()
        else:
            take = waiting.popleft
            batch = [take() for _ in range(options.batch_messages)]
        size = sum([entry.size for entry in batch])
        while size > options.batch_bytes and len(batch) > 1:
            last = batch.pop()
            size -= last.size
            waiting.appendleft(last)
        return batch

    def _send(self, connection: HttpConnection, batch: Entries[Item, Result]) -> None:
        left_s = batch[0].expires_at - self._loop.time()
        within_s = max(0.1, min(self._options.attempt_timeout_s, left_s))
        self._under_way += 1
        answer = connection.request(self._write([entry.item for entry in batch]), within_s=within_s)
        answer.add_done_callback(partial(self._answered, batch))

    async def _connect(self) -> None:
        try:
            self._connection = await self._connector.connect(within_s=self._options.attempt_timeout_s)
        except ServerUnreachable as unreachable:
            self._connecting = None
            waiting, self._waiting = list(self._waiting), deque()
            self._failed(waiting, unreachable)
        except UsedAfterFork as left:
            self._connecting = None
            waiting, self._waiting = list(self._waiting), deque()
            for entry in waiting:
                self._finish(entry, left)
        else:
            self._connecting = None
            self._flush()

    # Answers

    def _answered(self, batch: Entries[Item, Result], answer: asyncio.Future[HttpResponse]) -> None:
        self._under_way -= 1
        try:
            results = self._read(*answer.result())
        except DriftQError as refused:
            self._failed(batch, refused)
            return
        except (ConnectionLost, asyncio.CancelledError, ValueError, RecursionError) as odd:
            cause = f"the answer cannot be read: {odd}" if isinstance(odd, ValueError) else str(odd)
            self._failed(batch, ServerUnreachable(self._connector.url, cause=cause or "cancelled"))
            return
        if len(results) != len(batch):
            cause = f"the answer has {len(results)} results for {len(batch)}"
            self._failed(batch, ServerUnreachable(self._connector.url, cause=cause))
            return
        self._backoff.succeeded()
        self._flush()  # The next batch is on its way while those of this one are told.
        if any(issubclass(kind, DriftQError) for kind in set(map(type, results))):
            self._tell_apart(batch, results)
        else:
            tell_all(batch, cast("Sequence[Result]", results))
            self._let_go(batch)

    def _tell_apart(self, batch: Entries[Item, Result], results: Sequence[Result | DriftQError]) -> None:
        """Some of these were refused: for good, or only for now."""
        refused_for_now: list[tuple[Entry[Item, Result], DriftQError]] = []
        for entry, result in zip(batch, results, strict=True):
            if isinstance(result, DriftQError) and is_passing(result):
                refused_for_now.append((entry, result))
            else:
                self._finish(entry, result)
        if refused_for_now:
            self._repeat_alone(refused_for_now)

    def _repeat_alone(self, refused: list[tuple[Entry[Item, Result], DriftQError]]) -> None:
        """Send these again when the server said that it may help."""
        now = self._loop.time()
        entries: Entries[Item, Result] = []
        pause_s = 0.0
        for entry, error in refused:
            if not entry.may_go_again(now):
                self._finish(entry, error)
                continue
            entries.append(entry)
            asked_s = error.retry_after_ms / 1000 if isinstance(error, ResourceExhausted) else 0.0
            pause_s = max(pause_s, asked_s)
        if entries:
            self._later += 1
            pause_s = self._backoff.next_s(at_least_s=pause_s)
            self._loop.call_later(pause_s, self._come_again, entries)

    def _come_again(self, entries: Entries[Item, Result]) -> None:
        self._later -= 1
        if self._closed:
            for entry in entries:
                self._finish(entry, ClientClosed())
            return
        self._waiting.extendleft(reversed(entries))
        self._flush()

    def _failed(self, batch: Entries[Item, Result], error: DriftQError) -> None:
        """A request failed as a whole, or could not be sent."""
        now = self._loop.time()
        passing = is_passing(error) and not self._closed
        for entry in batch:
            if passing and entry.may_go_again(now):
                self._again.append(entry)
            else:
                self._finish(entry, error)
        if self._pause is None and not self._closed:
            asked_s = error.retry_after_ms / 1000 if isinstance(error, ResourceExhausted) else 0.0
            pause_s = self._backoff.next_s(at_least_s=asked_s) if passing else 0.0
            self._pause = self._loop.call_later(pause_s, self._resume)

    def _resume(self) -> None:
        self._pause = None
        self._flush()

    def _finish(self, entry: Entry[Item, Result], result: Result | Exception) -> None:
        entry.tell(result)
        self._let_go([entry])

    def _let_go(self, done: Entries[Item, Result]) -> None:
        """These have their answers: there is room for as many others."""
        self._held -= len(done)
        self._held_bytes -= sum([entry.size for entry in done])
        self.full = self._held >= self._held_max or self._held_bytes >= self._held_bytes_max
        for _ in range(min(len(done), len(self._room))):
            room = self._room.popleft()
            if not room.done():
                room.set_result(None)
        if not self._held:
            self._emptied.set()
