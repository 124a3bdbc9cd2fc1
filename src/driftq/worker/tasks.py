"""`driftq.Jobs`: functions that are run as jobs, and the worker that runs them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Generic, Literal, ParamSpec, TypeVar

from driftq.client import AsyncClient, Client
from driftq.client.consuming.subscription import LEASE_MS, new_owner
from driftq.errors import InvalidArgument
from driftq.model import RetryPolicy
from driftq.model.wire.jobs import EnqueuedJob
from driftq.worker.background import STOP_TIMEOUT_S, BackgroundWork
from driftq.worker.job_loop import JobLoop, Runnable
from driftq.worker.jobs.arguments import TaskArguments
from driftq.worker.jobs.handle import JobHandle
from driftq.worker.jobs.sweeping import ExpiringTrace, keep_clean
from driftq.worker.running.client_loop import ClientLoop
from driftq.worker.running.hooks import Hook, Hooked, HookRunner, Hooks
from driftq.worker.task_options.limit_keys import LimitKeyFunction, LimitKeyOf
from driftq.worker.task_options.limits import DeclaredLimits, JobLimits
from driftq.worker.task_options.periodic import DeclaredSchedule, register_schedules

_Given = ParamSpec("_Given")
_Result = TypeVar("_Result")

OPTIONS = frozenset({"priority", "delay", "run_at", "idempotency_key", "metadata", "after"})
"""Keywords of `enqueue` that say when and how, and so cannot be a task's own."""


class Task(Generic[_Given, _Result]):
    """A function that can be called here, or enqueued to be called by a worker."""

    def __init__(
        self,
        client: ClientLoop,
        call: Callable[_Given, _Result],
        *,
        name: str,
        queue: str,
        max_retries: int | None,
        timeout_ms: int | None,
        retry: RetryPolicy | None = None,
        limit_key: LimitKeyOf | None = None,
    ) -> None:
        self._client = client
        self.call = call
        self.name = name
        self.queue = queue
        self.retry = retry
        self._options: dict[str, Any] = {"max_retries": max_retries, "timeout_ms": timeout_ms, "retry": retry}
        if retry is not None and (problem := retry.job_problem()):
            raise InvalidArgument("retry", problem)
        if retry is not None and max_retries is not None:
            raise InvalidArgument("max_retries", "is retry.max_attempts without the first: give one of them")
        self._arguments = TaskArguments(call, name, reserved=OPTIONS)
        self.wants_context = self._arguments.wants_context
        self._limit_key = (
            LimitKeyFunction(limit_key, task=name, arguments=self._arguments.signature) if limit_key else None
        )

    @property
    def needs_arguments(self) -> bool:
        """Whether it cannot be called without any."""
        return bool(self._arguments.needed)

    def __call__(self, *args: _Given.args, **named: _Given.kwargs) -> _Result:
        return self.call(*args, **named)

    def enqueue(
        self,
        *args: Any,
        priority: int | None = None,
        delay: float | None = None,
        run_at: datetime | None = None,
        idempotency_key: str | None = None,
        metadata: Mapping[str, str] | None = None,
        after: Sequence[JobHandle | EnqueuedJob | str] = (),
        **named: Any,
    ) -> JobHandle:
        """Returns when the job is durable. `delay` is in seconds. Raises TypeError for wrong arguments.

        `metadata` travels with the job: the worker's context and hooks have it, and so has the job's view.
        `after` are jobs, or their ids, that have to succeed first.
        """
        return self._client.ask(
            self._enqueue(
                self._arguments.payload(args, named),
                priority=priority,
                delay_s=delay,
                run_at=run_at,
                idempotency_key=idempotency_key,
                metadata=metadata,
                after=after,
            )
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
            max_retries=self._options["max_retries"],
            timeout_ms=self._options["timeout_ms"],
            retry=self.retry,
        )

    async def enqueue_async(
        self,
        *args: Any,
        priority: int | None = None,
        delay: float | None = None,
        run_at: datetime | None = None,
        idempotency_key: str | None = None,
        metadata: Mapping[str, str] | None = None,
        after: Sequence[JobHandle | EnqueuedJob | str] = (),
        **named: Any,
    ) -> JobHandle:
        """The same, awaited."""
        return await self._client.finish(
            self._enqueue(
                self._arguments.payload(args, named),
                priority=priority,
                delay_s=delay,
                run_at=run_at,
                idempotency_key=idempotency_key,
                metadata=metadata,
                after=after,
            )
        )

    def enqueue_many(
        self,
        calls: Iterable[Mapping[str, Any] | tuple[Any, ...]],
        *,
        priority: int | None = None,
        delay: float | None = None,
        run_at: datetime | None = None,
        idempotency_keys: Iterable[str] | None = None,
        metadata: Mapping[str, str] | None = None,
    ) -> list[JobHandle]:
        """A job for each of these arguments: a mapping has them by name, a tuple by position.

        Returns when all jobs are durable. Raises TypeError before any job is enqueued, and BatchRefused.
        """
        return self._client.run(
            self._enqueue_many(
                self._payloads(calls),
                priority=priority,
                delay_s=delay,
                run_at=run_at,
                idempotency_keys=idempotency_keys,
                metadata=metadata,
            )
        )

    async def enqueue_many_async(
        self,
        calls: Iterable[Mapping[str, Any] | tuple[Any, ...]],
        *,
        priority: int | None = None,
        delay: float | None = None,
        run_at: datetime | None = None,
        idempotency_keys: Iterable[str] | None = None,
        metadata: Mapping[str, str] | None = None,
    ) -> list[JobHandle]:
        """The same, awaited."""
        return await self._client.finish(
            self._enqueue_many(
                self._payloads(calls),
                priority=priority,
                delay_s=delay,
                run_at=run_at,
                idempotency_keys=idempotency_keys,
                metadata=metadata,
            )
        )

    def body(self, *args: Any, **named: Any) -> dict[str, Any]:
        """The job as `POST /v1/jobs` takes it, with the task's own options. Raises TypeError."""
        payload = self._arguments.payload(args, named)
        options = self._options | {"retry": None if self.retry is None else self.retry.job_fields()}
        options["limit_key"] = self._key_of(payload)
        body = {"queue": self.queue, "task": self.name, "payload": payload}
        return body | {name: value for name, value in options.items() if value is not None}

    def arguments(self, given: Any) -> dict[str, Any]:
        """The arguments of a job; raises TypeError or ValueError when they are not this task's."""
        return self._arguments.read(given)

    async def _enqueue(
        self, payload: dict[str, Any], *, after: Sequence[JobHandle | EnqueuedJob | str], **options: Any
    ) -> JobHandle:
        options["after"] = [job if isinstance(job, str) else job.job_id for job in after]
        options["limit_key"] = self._key_of(payload)
        calls = self._client.awaited.jobs
        enqueued = await calls.enqueue(self.queue, self.name, payload, **self._options, **options)
        return self._handle(enqueued)

    def _key_of(self, payload: Mapping[str, Any]) -> str | None:
        return None if self._limit_key is None else self._limit_key.of(payload)

    async def _enqueue_many(self, payloads: list[dict[str, Any]], **options: Any) -> list[JobHandle]:
        if self._limit_key is not None:
            options["limit_keys"] = [self._limit_key.of(payload) for payload in payloads]
        calls = self._client.awaited.jobs
        enqueued = await calls.enqueue_many(self.queue, self.name, payloads, **self._options, **options)
        return [self._handle(one) for one in enqueued]

    def _payloads(self, calls: Iterable[Mapping[str, Any] | tuple[Any, ...]]) -> list[dict[str, Any]]:
        payloads: list[dict[str, Any]] = []
        for given in calls:
            if isinstance(given, tuple):
                payloads.append(self._arguments.payload(given, {}))
            elif isinstance(given, Mapping):
                payloads.append(self._arguments.payload((), given))
            else:
                raise TypeError(f"{self.name}: {given!r} is neither a mapping of arguments nor a tuple")
        return payloads

    def _handle(self, enqueued: EnqueuedJob) -> JobHandle:
        known_errors = self.retry.known_errors if self.retry is not None else ()
        return JobHandle(self._client, enqueued, known_errors=known_errors)


class Jobs(Hooked, BackgroundWork):
    """Tasks and the queues they wait in. `run` works on all of them until `stop` is called, or Ctrl-C."""

    def __init__(
        self,
        client: Client | AsyncClient,
        *,
        owner: str | None = None,
        lease_ms: int = LEASE_MS,
        concurrency: int = 8,
        prefetch: int = 2_000,
        stop_timeout_s: float = STOP_TIMEOUT_S,
        on_start: Hook | None = None,
        on_success: Hook | None = None,
        on_failure: Hook | None = None,
        on_dead: Hook | None = None,
        processed: ExpiringTrace | None = None,
    ) -> None:
        """`prefetch` bounds what is held; only as much is taken as is done in a quarter of a second.

        The hooks are called as those that the decorators of the same names declare. `processed` is a
        registry of processed jobs in a database of your own, which this worker keeps clean: the server
        does so in its own databases.
        """
        if concurrency < 1 or prefetch < 1:
            raise InvalidArgument("concurrency", "and prefetch must be at least 1")
        super().__init__(client, stop_timeout_s=stop_timeout_s)
        self._owner = owner or new_owner()
        self._lease_ms = lease_ms
        self._concurrency = concurrency
        self._prefetch = max(prefetch, concurrency)
        self._hooks = Hooks(on_start=on_start, on_success=on_success, on_failure=on_failure, on_dead=on_dead)
        self._processed = processed
        self._tasks: dict[str, Task[..., Any]] = {}
        self._schedules: dict[str, DeclaredSchedule] = {}
        self._limits = DeclaredLimits()

    def task(
        self,
        *,
        queue: str,
        name: str | None = None,
        max_retries: int | None = None,
        timeout_s: float | None = None,
        retry: RetryPolicy | None = None,
        limit_key: LimitKeyOf | None = None,
        limits: JobLimits | None = None,
    ) -> Callable[[Callable[_Given, _Result]], Task[_Given, _Result]]:
        """Make a task of a function, plain or `async`; its name is the function's. One run takes `timeout_s`.

        A parameter called `context` is given a JobContext. `retry` says how often and when a failed job is
        retried, and for which errors; without it the server's policy counts. `max_retries` n is a policy of
        n + 1 attempts: give one of them. `limit_key` is a function of some of the task's arguments; its
        result, as text, is what the limits per key of the queue count. The worker sets `limits` for the
        queue when it starts, which needs the role `admin` where the server has keys.
        """
        if limits is not None:
            self._limits.declare(queue, limits)

        def declare(call: Callable[_Given, _Result]) -> Task[_Given, _Result]:
            made = Task(
                self._loop,
                call,
                name=name or call.__name__,
                queue=queue,
                max_retries=max_retries,
                timeout_ms=None if timeout_s is None else max(1, round(timeout_s * 1000)),
                retry=retry,
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
        return f"jobs worker {self._owner}, {self._loop.url}: {queues}, concurrency {self._concurrency}"

    async def _work(self, stopping: asyncio.Event) -> None:
        hooks = HookRunner(self._hooks)
        loop = JobLoop(
            self._loop.awaited,
            {
                name: Runnable(one.call, one.arguments, wants_context=one.wants_context, retry=one.retry)
                for name, one in self._tasks.items()
            },
            queues=sorted({one.queue for one in self._tasks.values()}),
            owner=self._owner,
            lease_ms=self._lease_ms,
            concurrency=self._concurrency,
            prefetch=self._prefetch,
            stop_timeout_s=self._stop_timeout_s,
            hooks=hooks,
        )
        sweeping = asyncio.ensure_future(keep_clean(self._processed)) if self._processed else None
        try:
            await self._limits.register(self._loop.awaited)
            if self._schedules:
                await register_schedules(self._loop.awaited, self._schedules.values())
            await loop.run(stopping)
        finally:
            if sweeping is not None:
                sweeping.cancel()
            await asyncio.to_thread(hooks.close, self._stop_timeout_s)
