"""Work at leisure: step by step, one work at a time, and none of it after a stop."""

import asyncio
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event

import pytest

from driftq.log import Log
from driftq.log.memory import MemoryFolder
from driftq.server.io_threads import Fsync, Threads


@contextmanager
def running() -> Iterator[Threads]:
    log = Log.open(MemoryFolder())
    threads = Threads(log, asyncio.get_running_loop(), fsync=Fsync.ALWAYS)
    try:
        yield threads
    finally:
        threads.stop()


async def until(event: Event) -> None:
    await asyncio.to_thread(event.wait)


async def test_a_step_is_repeated_until_it_says_that_all_is_done() -> None:
    steps, done = 0, Event()

    def step() -> bool:
        nonlocal steps
        steps += 1
        if steps == 3:
            done.set()
        return steps < 3

    with running() as threads:
        threads.repeat(step)
        await until(done)
    assert steps == 3


async def test_a_second_work_does_not_begin_beside_the_first() -> None:
    begun, released = Event(), Event()
    others: list[str] = []

    def first() -> bool:
        begun.set()
        released.wait()
        return False

    def other() -> bool:
        others.append("began")
        return False

    with running() as threads:
        threads.repeat(first)
        await until(begun)
        threads.repeat(other)
        released.set()
    assert others == []


async def test_a_stop_ends_the_steps() -> None:
    begun = Event()

    def endless() -> bool:
        begun.set()
        return True

    with running() as threads:
        threads.repeat(endless)
        await until(begun)


async def test_a_disk_that_fails_ends_the_steps_and_later_ones_begin(
    caplog: pytest.LogCaptureFixture,
) -> None:
    failed, done = Event(), Event()

    def fails() -> bool:
        failed.set()
        raise OSError(5, "the disk is gone")

    def step() -> bool:
        done.set()
        return False

    with running() as threads, caplog.at_level(logging.WARNING, logger="driftq.engine"):
        threads.repeat(fails)
        await until(failed)
        while not done.is_set():
            threads.repeat(step)
            await asyncio.sleep(0)
    assert "the disk is gone" in caplog.text
