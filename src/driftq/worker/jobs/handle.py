"""The handle of an enqueued job: its state, and its result or its error."""

from __future__ import annotations

import builtins
import re
import time
from collections.abc import Iterable, Iterator
from typing import Any

from driftq.errors import JobFailed
from driftq.model.wire.jobs import EnqueuedJob, JobView
from driftq.worker.running.client_loop import ClientLoop

_CLASS_NAME = re.compile(r"(?P<name>[A-Za-z_]\w*)(: |$)")
_WAIT_MS = 10_000
_NEVER = (StopIteration, StopAsyncIteration)
"""No coroutine may raise these."""


class JobHandle:
    """A job that was enqueued. What ends in `_async` is for an event loop."""

    def __init__(
        self, client: ClientLoop, enqueued: EnqueuedJob, *, known_errors: Iterable[type[BaseException]] = ()
    ) -> None:
        self._client = client
        self._enqueued = enqueued
        self._known_errors = {one.__name__: one for one in known_errors}

    @property
    def id(self) -> str:
        return self._enqueued.job_id

    @property
    def job_id(self) -> str:
        return self._enqueued.job_id

    @property
    def state(self) -> str:
        """When it was enqueued; `status` asks the server."""
        return self._enqueued.state

    @property
    def duplicate(self) -> bool:
        """Whether an earlier job has its key: this is the handle of that one."""
        return self._enqueued.duplicate

    @property
    def payload_mismatch(self) -> bool:
        """Whether that one has another payload."""
        return self._enqueued.payload_mismatch

    def __iter__(self) -> Iterator[tuple[str, Any]]:
        """Names and values, as of an EnqueuedJob."""
        return iter(self._enqueued)

    def __repr__(self) -> str:
        return f"JobHandle({self.id!r})"

    def status(self) -> str:
        """The state now. Raises JobNotFound."""
        return self._client.ask(self._status())

    async def status_async(self) -> str:
        return await self._client.finish(self._status())

    def result(self, timeout: float | None = None) -> Any:
        """Wait for the job's end: its result, None where it has none.

        Raises JobFailed when the job is dead, TimeoutError after `timeout` seconds, and JobNotFound. Where
        the job's error is of a built-in class, or of one that the task's retry policy names, the JobFailed
        is an instance of that class as well.
        """
        return self._client.ask(self._result(timeout))

    async def result_async(self, timeout: float | None = None) -> Any:  # noqa: ASYNC109 - as of `result`.
        return await self._client.finish(self._result(timeout))

    async def _status(self) -> str:
        view = await self._client.awaited.jobs.get(self.id)
        return str(view.state)

    async def _result(self, timeout_s: float | None) -> Any:
        end = None if timeout_s is None else time.monotonic() + timeout_s
        while True:
            left_ms = _WAIT_MS if end is None else max(0, round((end - time.monotonic()) * 1000))
            view = await self._client.awaited.jobs.get(self.id, wait_ms=min(left_ms, _WAIT_MS))
            match view.state:
                case "succeeded":
                    return view.result
                case "dead":
                    raise self._failed(view)
            if left_ms == 0:
                raise TimeoutError(f"{self.id} is {view.state} after {timeout_s:g} s")

    def _failed(self, view: JobView) -> JobFailed:
        error = view.error or view.last_error
        found = _CLASS_NAME.match(error)
        name = found["name"] if found else ""
        kind = self._known_errors.get(name) or _builtin_error(name)
        made = JobFailed if kind is None else _failed_as(kind)
        return made(self.id, error=error, error_class=name if kind or name[:1].isupper() else "")


def _builtin_error(name: str) -> type[BaseException] | None:
    found = getattr(builtins, name, None)
    return found if isinstance(found, type) and issubclass(found, Exception) else None


def _failed_as(kind: type[BaseException]) -> type[JobFailed]:
    """A JobFailed that is caught as the other class too; a plain one where Python cannot combine them."""
    if not issubclass(kind, Exception) or issubclass(kind, _NEVER):
        return JobFailed
    try:
        made = type("JobFailed", (JobFailed, kind), {"__module__": JobFailed.__module__})
        made("job-0", error=kind.__name__)
    except TypeError:
        return JobFailed
    return made
