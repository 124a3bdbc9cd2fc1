"""Long reads on a server: they take turns, and a mistake in one fails its request alone."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from driftq.core.state import State
from driftq.errors import TopicNotFound, WritingStopped
from driftq.http.reads import in_slices, walk_state
from driftq.model.options.limits import Limits
from driftq.server.requests import ReadRequest
from driftq.server.walk import UNITS_MAX, Walk


class OneTurnAfterAnother:
    """An engine that answers what was asked before a turn, and counts the slices in each."""

    def __init__(self) -> None:
        self.state = State(Limits())
        self.slices: list[int] = []
        self._reads: list[ReadRequest] = []

    def read(self, request: ReadRequest) -> None:
        self._reads.append(request)
        if len(self._reads) == 1:
            asyncio.get_running_loop().call_soon(self._turn)

    def _turn(self) -> None:
        reads, self._reads = self._reads, []
        self.slices.append(len(reads))
        for read in reads:
            try:
                answer = read.query(self.state)
            except (TopicNotFound, WritingStopped) as refused:
                answer = refused
            read.reply(answer)


def new_edge() -> Any:
    return SimpleNamespace(engine=OneTurnAfterAnother(), walking=asyncio.Semaphore(1))


def walk_of(slices: int, result: str) -> Callable[[State], Walk[str]]:
    def walk(_: State) -> Walk[str]:
        for _slice in range(slices):
            yield UNITS_MAX
        return result

    return walk


@pytest.mark.clause("O1")
async def test_of_many_long_reads_one_slice_runs_in_a_turn() -> None:
    edge = new_edge()
    results = await asyncio.gather(*(walk_state(edge, walk_of(5, f"list {number}")) for number in range(8)))
    assert results == [f"list {number}" for number in range(8)]
    assert set(edge.engine.slices) == {1}
    assert len(edge.engine.slices) == 8 * 6


@pytest.mark.clause("O1")
async def test_a_short_read_is_not_kept_waiting_by_a_long_one() -> None:
    edge = new_edge()
    done: list[str] = []

    async def read(slices: int, name: str) -> None:
        done.append(await walk_state(edge, walk_of(slices, name)))

    await asyncio.gather(read(100, "long"), read(1, "short"))
    assert done == ["short", "long"]


async def test_a_mistake_in_a_slice_does_not_reach_the_turn() -> None:
    edge = new_edge()

    def broken(_: State) -> bool:
        raise KeyError("a queue")

    with pytest.raises(KeyError):
        await in_slices(edge, broken)
    assert await walk_state(edge, walk_of(1, "the next")) == "the next"


async def test_a_refusal_is_passed_on() -> None:
    def refused(_: State) -> bool:
        raise TopicNotFound("gone")

    with pytest.raises(TopicNotFound):
        await in_slices(new_edge(), refused)
