"""How handlers read: a reply from durable state, and stored messages.

Every handler that reads stored messages does it here, because of one rule (`reading`): damage of a stored
message, in any handler, is answered with 503 and stops the server. Bytes in memory or in the page cache are
read at once, the rest by a thread.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

from driftq.core.index import PartitionIndex
from driftq.core.state import State
from driftq.errors import DriftQError, LogCorrupt, NotConfirmed, WritingStopped
from driftq.history.finding import MessageFilter, MessagePage, PartitionSlice, Search
from driftq.http.wire.edge import Edge
from driftq.http.wire.exchange import Exchange
from driftq.model.wire.jobs import JobView
from driftq.server.engine import Engine
from driftq.server.jobs.views import JobFacts
from driftq.server.requests import ReadRequest
from driftq.server.walk import StateWalk, Walk, batches

_T = TypeVar("_T")

_JOBS_TOGETHER = 50


async def ask_state(exchange: Exchange, query: Callable[[State], _T]) -> _T:
    """A reply from durable state."""
    return await state_of(exchange.edge.engine, query)


async def state_of(engine: Engine, query: Callable[[State], _T]) -> _T:
    """The same without a request."""
    answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

    def give(result: Any) -> None:
        if not answer.done():  # The task that waited may be gone.
            answer.set_result(result)

    engine.read(ReadRequest(query, give))
    return await result_of(answer)  # type: ignore[no-any-return]


async def walk_state(edge: Edge, begin: Callable[[State], Walk[_T]]) -> _T:
    """The result of a long read."""
    walk = StateWalk(begin)
    await in_slices(edge, walk.slice)
    return walk.result


async def in_slices(edge: Edge, slice_of: Callable[[State], bool]) -> None:
    """Call it until it says False. Of all long reads together one slice runs in a turn, in turns."""

    def guarded(state: State) -> bool | Exception:
        try:
            return slice_of(state)
        except DriftQError:
            raise
        except Exception as mistake:  # noqa: BLE001 - a list's mistake fails its request, and not the turn
            return mistake

    more: bool | Exception = True
    while more:
        async with edge.walking:
            more = await state_of(edge.engine, guarded)
        if isinstance(more, Exception):
            raise more


async def result_of(answer: asyncio.Future[Any]) -> Any:
    """The engine's reply; raises its errors."""
    result = await answer
    if isinstance(result, DriftQError):
        raise result
    return result


@contextmanager
def reading(engine: Engine) -> Iterator[None]:
    """Around every read of stored messages for a reply, on the engine's loop.

    Raises WritingStopped for damage, after telling the server to stop, and NotConfirmed when the disk cannot
    be read.
    """
    try:
        yield
    except LogCorrupt as damage:
        engine.damaged(damage)
        raise WritingStopped(str(damage)) from damage
    except OSError as error:
        raise NotConfirmed(str(error)) from error


async def read_stored(edge: Edge, index: PartitionIndex, ordinals: Sequence[int]) -> list[bytes]:
    """The stored forms of these messages, in order.

    MessagesGone when retention has removed some of them; Unavailable when they are damaged, which stops the
    server, or when the disk fails.
    """
    engine = edge.engine
    with reading(engine):
        entries = engine.payloads.fetch(index, ordinals)
        if entries is None:
            entries = await asyncio.to_thread(engine.payloads.read, index, ordinals)
        return entries


async def in_thread(exchange: Exchange, work: Callable[[], _T]) -> _T:
    """Read much of the log in a thread; only one such read runs at a time."""
    async with exchange.edge.reading:
        with reading(exchange.edge.engine):
            return await asyncio.to_thread(work)


async def search_stored(
    exchange: Exchange,
    slices: list[PartitionSlice],
    wanted: MessageFilter,
    *,
    topic: int,
    offsets: range,
    limit: int,
    newest_first: bool,
) -> MessagePage:
    """A page of the messages that fit, from the history's index and, in a thread, from the log."""
    options = exchange.edge.broker.options
    search = Search(exchange.edge.engine.payloads, topic, slices, wanted, limit, newest_first=newest_first)
    history = options.history if options.durable else None
    return await in_thread(exchange, lambda: search.run(history, first=offsets.start, end=offsets.stop))


async def job_views(exchange: Exchange, jobs: list[JobFacts]) -> list[JobView]:
    """Jobs with their stored forms, few at a time; one that was dropped meanwhile is left out."""
    views: list[JobView] = []
    for some in batches(jobs, _JOBS_TOGETHER):
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        exchange.edge.engine.stages.job_reader.views(some, answer.set_result)
        views += await result_of(answer)
        await asyncio.sleep(0)
    return views


def read_jobs(exchange: Exchange, jobs: list[JobFacts], reply: Callable[[list[JobView]], None]) -> None:
    """Jobs with their stored forms; damage is handled as in `read_stored`."""
    exchange.edge.engine.stages.job_reader.views(jobs, exchange.answering(reply))


def read_job_entries(exchange: Exchange, offsets: list[int], reply: Callable[[list[bytes]], None]) -> None:
    """The stored forms of jobs, in order; damage is handled likewise."""
    exchange.edge.engine.stages.job_reader.entries(offsets, exchange.answering(reply))
