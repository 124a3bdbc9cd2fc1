"""Sends the entries of many callers in few requests over one connection, in order.

    put ─▶ waiting ─▶ batch ─▶ request ─▶ response ─▶ each caller gets its result
              ▲                              │
              └── after a pause ◀── failed, and may be repeated

All entries that were put while the loop was busy go in one batch. The batcher never waits for a batch to
grow, and it sends `ENOUGH` entries without waiting for the loop, so the server works while callers put the
rest. It sends up to `requests_under_way` batches ahead of their responses. When a request fails, the batcher
holds everything behind it back until it has repeated the request: messages keep their order. An entry that
the server refuses for the moment is repeated on its own.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import Generic, cast

from driftq.client.backoff import RetryBackoff
from driftq.client.options import ClientOptions
from driftq.client.producing.entry import Entry, Item, Result, Waiter, resolve_all
from driftq.client.wire.connection import ConnectionLost, HttpConnection, HttpResponse
from driftq.client.wire.connector import Connector
from driftq.errors import ClientClosed, DriftQError, ResourceExhausted, ServerUnreachable, UsedAfterFork
from driftq.forking import in_forked_child, leave_behind
from driftq.transport.errors import is_transient

Entries = list[Entry[Item, Result]]

ENOUGH = 250
"""Entries that are sent without waiting for the loop: otherwise callers and server would take turns."""


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
        self._to_repeat: Entries[Item, Result] = []
        self._unanswered = 0
        self._unanswered_bytes = 0
        self._unanswered_max = options.buffer_messages
        self._unanswered_bytes_max = options.buffer_bytes
        self.full = False
        """The buffer is full: callers should wait for room."""
        self._under_way = 0
        self._later = 0
        self._connection: HttpConnection | None = None
        self._connecting: asyncio.Task[None] | None = None
        self._pause: asyncio.TimerHandle | None = None
        self._flush_scheduled = False
        self._expires_at = 0.0
        self._backoff = RetryBackoff()
        self._room: deque[asyncio.Future[None]] = deque()
        self._emptied = asyncio.Event()
        self._closed = False
        self._left_to_parent = False
        in_forked_child(self._leave_to_parent)

    # For callers

    async def wait_for_room(self) -> None:
        """Wait until the buffer has room."""
        while self.full and not self._closed:
            room: asyncio.Future[None] = self._loop.create_future()
            self._room.append(room)
            await room

    def put(self, item: Item, size: int, waiter: Waiter[Item, Result], retries: int | None = None) -> None:
        """Send this item; its waiter gets one result or one error."""
        if self._closed:
            if self._left_to_parent:
                raise UsedAfterFork("this delivery", instead="call consume() in this process")
            Entry(item, size, waiter, 0.0, retries).resolve(ClientClosed())
            return
        if not self._flush_scheduled:
            self._schedule_flush()
        self._unanswered += 1
        self._unanswered_bytes += size
        if self._unanswered >= self._unanswered_max or self._unanswered_bytes >= self._unanswered_bytes_max:
            self.full = True
        waiting = self._waiting
        waiting.append(Entry(item, size, waiter, self._expires_at, retries))
        if len(waiting) == ENOUGH:
            self._flush()

    def _schedule_flush(self) -> None:
        """Once a turn of the loop: everything put in that turn is sent together and expires together."""
        self._flush_scheduled = True
        self._expires_at = self._loop.time() + self._options.timeout_s
        self._loop.call_soon(self._flush)

    async def flush(self) -> None:
        """Wait until every entry has its result."""
        if self._unanswered:
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
        left = [*self._to_repeat, *self._waiting]
        self._to_repeat.clear()
        self._waiting.clear()
        for entry in left:
            self._finish(entry, ClientClosed())
        for room in self._room:
            if not room.done():
                room.set_result(None)

    def _leave_to_parent(self) -> None:
        """The parent sends what waits here; a child that sent it too would send it twice."""
        leave_behind(self._connecting, self._pause)
        self._connecting = self._pause = self._connection = None
        self._waiting.clear()
        self._to_repeat.clear()
        self._room.clear()
        self._unanswered = self._unanswered_bytes = self._under_way = 0
        self._closed = True
        self._left_to_parent = True

    # Sending

    def _flush(self) -> None:
        self._flush_scheduled = False
        if self._closed or self._pause is not None:
            return
        if self._to_repeat:
            if self._under_way:
                return  # The responses to requests sent after the failed one come first.
            self._waiting.extendleft(reversed(self._to_repeat))
            self._to_repeat.clear()
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

    # Responses

    def _answered(self, batch: Entries[Item, Result], answer: asyncio.Future[HttpResponse]) -> None:
        self._under_way -= 1
        try:
            results = self._read(*answer.result())
        except DriftQError as refused:
            self._failed(batch, refused)
            return
        except (ConnectionLost, asyncio.CancelledError, ValueError, RecursionError) as broken:
            cause = (
                f"the response cannot be read: {broken}" if isinstance(broken, ValueError) else str(broken)
            )
            self._failed(batch, ServerUnreachable(self._connector.url, cause=cause or "cancelled"))
            return
        if len(results) != len(batch):
            cause = f"the response has {len(results)} results for {len(batch)} entries"
            self._failed(batch, ServerUnreachable(self._connector.url, cause=cause))
            return
        self._backoff.succeeded()
        self._flush()  # The next batch is under way while the callers of this one get their results.
        if any(issubclass(kind, DriftQError) for kind in set(map(type, results))):
            self._settle_each(batch, results)
        else:
            resolve_all(batch, cast("Sequence[Result]", results))
            self._let_go(batch)

    def _settle_each(self, batch: Entries[Item, Result], results: Sequence[Result | DriftQError]) -> None:
        """Some entries were refused: for good, or for the moment."""
        refused_for_now: list[tuple[Entry[Item, Result], DriftQError]] = []
        for entry, result in zip(batch, results, strict=True):
            if isinstance(result, DriftQError) and is_transient(result):
                refused_for_now.append((entry, result))
            else:
                self._finish(entry, result)
        if refused_for_now:
            self._repeat_alone(refused_for_now)

    def _repeat_alone(self, refused: list[tuple[Entry[Item, Result], DriftQError]]) -> None:
        """Put these back after a pause, as far as they may be repeated."""
        now = self._loop.time()
        entries: Entries[Item, Result] = []
        pause_s = 0.0
        for entry, error in refused:
            if not entry.may_retry(now):
                self._finish(entry, error)
                continue
            entries.append(entry)
            retry_after_s = error.retry_after_ms / 1000 if isinstance(error, ResourceExhausted) else 0.0
            pause_s = max(pause_s, retry_after_s)
        if entries:
            self._later += 1
            pause_s = self._backoff.next_s(at_least_s=pause_s)
            self._loop.call_later(pause_s, self._requeue, entries)

    def _requeue(self, entries: Entries[Item, Result]) -> None:
        self._later -= 1
        if self._closed:
            for entry in entries:
                self._finish(entry, ClientClosed())
            return
        self._waiting.extendleft(reversed(entries))
        self._flush()

    def _failed(self, batch: Entries[Item, Result], error: DriftQError) -> None:
        """A request failed, or could not be sent."""
        now = self._loop.time()
        transient = is_transient(error) and not self._closed
        for entry in batch:
            if transient and entry.may_retry(now):
                self._to_repeat.append(entry)
            else:
                self._finish(entry, error)
        if self._pause is None and not self._closed:
            retry_after_s = error.retry_after_ms / 1000 if isinstance(error, ResourceExhausted) else 0.0
            pause_s = self._backoff.next_s(at_least_s=retry_after_s) if transient else 0.0
            self._pause = self._loop.call_later(pause_s, self._resume)

    def _resume(self) -> None:
        self._pause = None
        self._flush()

    def _finish(self, entry: Entry[Item, Result], result: Result | Exception) -> None:
        entry.resolve(result)
        self._let_go([entry])

    def _let_go(self, done: Entries[Item, Result]) -> None:
        """These have their results: there is room for as many others."""
        self._unanswered -= len(done)
        self._unanswered_bytes -= sum([entry.size for entry in done])
        self.full = (
            self._unanswered >= self._unanswered_max or self._unanswered_bytes >= self._unanswered_bytes_max
        )
        for _ in range(min(len(done), len(self._room))):
            room = self._room.popleft()
            if not room.done():
                room.set_result(None)
        if not self._unanswered:
            self._emptied.set()
