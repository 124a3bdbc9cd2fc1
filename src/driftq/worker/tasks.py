"""`driftq.Jobs`: functions that are run as jobs, and the worker that runs them."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, Generic, Literal, ParamSpec, TypeVar

from driftq.client import Client
from driftq.client.consuming.subscription import LEASE_MS, new_owner
from driftq.errors import InvalidArgument
from driftq.model.wire.jobs import EnqueuedJob
from driftq.worker.background import STOP_TIMEOUT_S, BackgroundWork
from driftq.worker.job_loop import JobLoop, Runnable
from driftq.worker.signatures import check_returns
from driftq.worker.task_options.limit_keys import LimitKeyFunction, LimitKeyOf
from driftq.worker.task_options.periodic import DeclaredSchedule, register_schedules

_Given = ParamSpec("_Given")
_Result = TypeVar("_Result")

OPTIONS = frozenset({"priority", "delay", "run_at", "idempotency_key", "after"})
"""Keywords of `enqueue` that say when and how, and so cannot be a task's own."""


class Task(Generic[_Given, _Result]):
    """A function that can be called here, or enqueued to be called by a worker."""

    def __init__(
        self,
        client: Client,
        call: Callable[_Given, _Result],
        *,
        name: str,
        queue: str,
        max_retries: int | None,
        timeout_ms: int | None,
        limit_key: LimitKeyOf | None = None,
    ) -> None:
        self._client = client
        self.call = call
        self.name = name
        self.queue = queue
        self._max_retries = max_retries
        self._timeout_ms = timeout_ms
        check_returns(call, field="task")
        parameters = _parameters(call, name)
        self.wants_context = "context" in parameters
        for parameter in parameters.values():
            if parameter.kind in (parameter.POSITIONAL_ONLY, parameter.VAR_POSITIONAL):
                raise InvalidArgument("task", f"{name}: {parameter.name} must be an argument with a name")
            if parameter.name in OPTIONS:
                raise InvalidArgument("task", f"{name}: {parameter.name} is a keyword of enqueue")
        kept = [one for one in parameters.values() if one.name != "context"]
        self._signature = inspect.Signature(kept)
        self._named = {one.name for one in kept if one.kind is not one.VAR_KEYWORD}
        self._needed = {one.name for one in kept if one.name in self._named and one.default is one.empty}
        self._takes_any = len(self._named) < len(kept)
        self._limit_key = (
            LimitKeyFunction(limit_key, task=name, arguments=self._signature) if limit_key else None
        )

    @property
    def needs_arguments(self) -> bool:
        """Whether it cannot be called without any."""
        return bool(self._needed)

    def __call__(self, *args: _Given.args, **named: _Given.kwargs) -> _Result:
        return self.call(*args, **named)

    def enqueue(
        self,
        *args: Any,
        priority: int | None = None,
        delay: float | None = None,
        run_at: datetime | None = None,
        idempotency_key: str | None = None,
        after: Sequence[EnqueuedJob | str] = (),
        **named: Any,
    ) -> EnqueuedJob:
        """Returns when the job is durable. `delay` is in seconds. Raises TypeError for wrong arguments.

        `after` are jobs, or their ids, that have to succeed first.
        """
        payload = self._signature.bind(*args, **named).arguments
        return self._client.jobs.enqueue(
            self.queue,
            self.name,
            payload,
            priority=priority,
            delay_s=delay,
            run_at=run_at,
            idempotency_key=idempotency_key,
            max_retries=self._max_retries,
            timeout_ms=self._timeout_ms,
            limit_key=self._limit_key.of(payload) if self._limit_key is not None else None,
            after=[job if isinstance(job, str) else job.job_id for job in after],
        )

    def at_times(
        self,
        cron: str,
        *,
        timezone: str,
        name: str,
        missed: Literal["skip", "last", "all"],
        priority: int | None,
    ) -> DeclaredSchedule:
        """The schedule that runs the task at the times of a cron expression."""
        return DeclaredSchedule(
            name=name,
            cron=cron,
            timezone=timezone,
            queue=self.queue,
            task=self.name,
            missed=missed,
            priority=priority,
            max_retries=self._max_retries,
            timeout_ms=self._timeout_ms,
        )

    def arguments(self, given: Any) -> dict[str, Any]:
        """The arguments of a job; raises TypeError when they are not this task's."""
        if not isinstance(given, dict):
            raise TypeError("the payload is not an object of arguments")
        if not self._needed <= given.keys():
            raise TypeError(f"missing: {', '.join(sorted(self._needed - given.keys()))}")
        if not self._takes_any and not given.keys() <= self._named:
            raise TypeError(f"unexpected: {', '.join(sorted(given.keys() - self._named))}")
        return given


def _parameters(call: Callable[..., Any], name: str) -> Mapping[str, inspect.Parameter]:
    try:
        return inspect.signature(call).parameters
    except (TypeError, ValueError):
        raise InvalidArgument(
            "task", f"{name}: its arguments cannot be inspected; use a plain function"
        ) from None


class Jobs(BackgroundWork):
    """Tasks and the queues they wait in. `run` works on all of them until `stop` is called, or Ctrl-C."""

    def __init__(
        self,
        client: Client,
        *,
        owner: str | None = None,
        lease_ms: int = LEASE_MS,
        concurrency: int = 8,
        prefetch: int = 2_000,
        stop_timeout_s: float = STOP_TIMEOUT_S,
    ) -> None:
        """`prefetch` bounds what is held; only as much is taken as is done in a quarter of a second."""
        if concurrency < 1 or prefetch < 1:
            raise InvalidArgument("concurrency", "and prefetch must be at least 1")
        super().__init__(client, stop_timeout_s=stop_timeout_s)
        self._owner = owner or new_owner()
        self._lease_ms = lease_ms
        self._concurrency = concurrency
        self._prefetch = max(prefetch, concurrency)
        self._tasks: dict[str, Task[..., Any]] = {}
        self._schedules: dict[str, DeclaredSchedule] = {}

    def task(
        self,
        *,
        queue: str,
        name: str | None = None,
        max_retries: int | None = None,
        timeout_s: float | None = None,
        limit_key: LimitKeyOf | None = None,
    ) -> Callable[[Callable[_Given, _Result]], Task[_Given, _Result]]:
        """Make a task of a function, plain or `async`; its name is the function's. One run takes `timeout_s`.

        A parameter called `context` is given a JobContext. `limit_key` is a function of some of the task's
        arguments; its result, as text, is what the limits per key of the queue count.
        """

        def declare(call: Callable[_Given, _Result]) -> Task[_Given, _Result]:
            made = Task(
                self._client,
                call,
                name=name or call.__name__,
                queue=queue,
                max_retries=max_retries,
                timeout_ms=None if timeout_s is None else max(1, round(timeout_s * 1000)),
                limit_key=limit_key,
            )
            if made.name in self._tasks:
                raise InvalidArgument("task", f"there is a task {made.name!r} already")
            self._tasks[made.name] = made
            return made

        return declare

    def periodic(
        self,
        cron: str,
        *,
        timezone: str = "UTC",
        name: str | None = None,
        missed: Literal["skip", "last", "all"] = "skip",
        priority: int | None = None,
    ) -> Callable[[Task[_Given, _Result]], Task[_Given, _Result]]:
        """Let the server enqueue a task at the times of a cron expression; put it above `task`.

        The schedule has the task's name unless another is given. The worker registers it when it starts,
        which needs the role `admin` where the server has keys.
        """

        def declare(task: Task[_Given, _Result]) -> Task[_Given, _Result]:
            if not isinstance(task, Task):
                raise InvalidArgument("periodic", "goes above `task`, which makes a task of the function")
            schedule = name or task.name
            if task.needs_arguments or schedule in self._schedules:
                problem = "needs arguments" if task.needs_arguments else "has a schedule of this name already"
                raise InvalidArgument("periodic", f"{schedule}: {problem}")
            self._schedules[schedule] = task.at_times(
                cron, timezone=timezone, name=schedule, missed=missed, priority=priority
            )
            return task

        return declare

    def _check(self) -> None:
        if not self._tasks:
            raise InvalidArgument("jobs", "has no tasks")

    def _described(self) -> str:
        of_queue: dict[str, list[str]] = {}
        for one in self._tasks.values():
            of_queue.setdefault(one.queue, []).append(one.name)
        queues = ", ".join(f"{queue} ({', '.join(names)})" for queue, names in sorted(of_queue.items()))
        return f"jobs worker {self._owner}, {self._client.url}: {queues}, concurrency {self._concurrency}"

    async def _work(self, stopping: asyncio.Event) -> None:
        loop = JobLoop(
            self._client.awaited,
            {
                name: Runnable(one.call, one.arguments, wants_context=one.wants_context)
                for name, one in self._tasks.items()
            },
            queues=sorted({one.queue for one in self._tasks.values()}),
            owner=self._owner,
            lease_ms=self._lease_ms,
            concurrency=self._concurrency,
            prefetch=self._prefetch,
            stop_timeout_s=self._stop_timeout_s,
        )
        if self._schedules:
            await register_schedules(self._client.awaited, self._schedules.values())
        await loop.run(stopping)
