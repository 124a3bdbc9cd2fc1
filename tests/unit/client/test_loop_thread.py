"""The loop in a thread of its own: results, errors, context and interruptions come through."""

import asyncio
import contextvars
import gc
import signal
import threading
from collections.abc import Iterator
from concurrent.futures import CancelledError

import pytest

from driftq.client.loop_thread import LoopThread
from driftq.errors import ClientClosed

NAME: contextvars.ContextVar[str] = contextvars.ContextVar("name", default="none")


@pytest.fixture
def thread() -> Iterator[LoopThread]:
    made = LoopThread("test")
    yield made
    made.close()


def test_a_result_and_an_error_are_those_of_the_coroutine(thread: LoopThread) -> None:
    async def add(one: int) -> int:
        await asyncio.sleep(0)
        if one < 0:
            raise ValueError(one)
        return one + 1

    assert thread.run(add(1)) == 2
    with pytest.raises(ValueError, match="-1"):
        thread.run(add(-1))


def test_the_coroutine_has_the_context_of_its_caller(thread: LoopThread) -> None:
    async def name() -> str:
        return NAME.get()

    NAME.set("caller")
    assert thread.run(name()) == "caller"


def test_a_cancelled_coroutine_is_an_error_of_threads(thread: LoopThread) -> None:
    async def cancelled() -> None:
        raise asyncio.CancelledError

    with pytest.raises(CancelledError):
        thread.run(cancelled())


def test_an_interrupted_caller_cancels_its_coroutine(
    thread: LoopThread, caplog: pytest.LogCaptureFixture
) -> None:
    began, ended = threading.Event(), threading.Event()

    async def wait() -> None:
        began.set()
        try:
            await asyncio.sleep(60)
        finally:
            ended.set()
            raise ValueError("nobody waits for this")

    raised: list[int] = []

    def handle(number: int, _: object) -> None:
        if not raised:
            raised.append(number)
            raise KeyboardInterrupt

    def interrupt() -> None:
        """A signal just before the caller waits does not wake it: the next one does."""
        began.wait(5)
        for _ in range(100):
            if ended.wait(0.05):
                return
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGUSR1)

    before = signal.signal(signal.SIGUSR1, handle)
    interrupting = threading.Thread(target=interrupt)
    try:
        interrupting.start()
        with pytest.raises(KeyboardInterrupt):
            thread.run(wait())
    finally:
        interrupting.join()
        signal.signal(signal.SIGUSR1, before)
    assert ended.wait(5)
    thread.call(gc.collect)
    assert "never retrieved" not in caplog.text


def test_a_closed_thread_refuses(thread: LoopThread) -> None:
    async def nothing() -> None: ...

    thread.close()
    with pytest.raises(ClientClosed):
        thread.run(nothing())
    with pytest.raises(ClientClosed):
        thread.ask(nothing())
