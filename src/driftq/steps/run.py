"""Steps from ordinary code: each call runs on the client's loop thread, and heartbeats go on there."""

from __future__ import annotations

import datetime as dt
import functools
from collections.abc import Callable
from contextvars import Token
from typing import Any, ParamSpec, Self, TypeVar, overload

import msgspec

from driftq.client import Client
from driftq.client.consuming.subscription import LEASE_MS
from driftq.steps.awaited import AsyncRun, AsyncStep, StepEffect, enter, leave

_Given = ParamSpec("_Given")
_Result = TypeVar("_Result")


class Step:
    """One step. `done` says whether it ran before, and then `result` is what it gave."""

    def __init__(self, run: Run, awaited: AsyncStep) -> None:
        self._run = run
        self._awaited = awaited
        self._outer: Token[tuple[str, str] | None] | None = None

    @property
    def key(self) -> str:
        return self._awaited.key

    @property
    def done(self) -> bool:
        """Whether the step is committed: by an earlier run, or by `finish`."""
        return self._awaited.done

    @property
    def result(self) -> Any:
        return self._awaited.result

    @property
    def lost(self) -> bool:
        """Whether another process may have taken the step over: `finish` will be refused."""
        return self._awaited.lost

    def finish(self, result: Any = None) -> None:
        """Commit the step with its result, which must be JSON. Raises EffectSuperseded when it was lost."""
        self._run.client.thread.run(self._awaited.finish(result))

    def nothing_happened(self, error: str = "nothing happened") -> None:
        """Say that the effect did not happen: the step may run again, also one of effect `unknown`."""
        self._run.client.thread.run(self._awaited.nothing_happened(error))

    def __enter__(self) -> Self:
        self._run.client.thread.run(self._awaited.begin())
        self._outer = enter(self._run.run_id, self.key)
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if self._outer is not None:
            leave(self._outer)
        self._run.client.thread.run(self._awaited.end(error))

    def __call__(self, function: Callable[_Given, _Result]) -> Callable[_Given, _Result]:
        """Make a step of a function: it runs once for the run, and each call returns its result."""

        @functools.wraps(function)
        def stepped(*args: _Given.args, **named: _Given.kwargs) -> _Result:
            with Step(self._run, self._awaited.again()) as step:
                if not step.done:
                    step.finish(function(*args, **named))
            result: _Result = step.result
            return result

        return stepped


class Run:
    """One run of an agent or a workflow, by its id. Any thread may use it."""

    def __init__(
        self,
        client: Client,
        run_id: str,
        *,
        group: str = "agent",
        tenant_id: str = "",
        owner: str | None = None,
        lease_ms: int = LEASE_MS,
    ) -> None:
        """`lease_ms` is how long after a crash the step is still held for the process that began it."""
        self.client = client
        self._awaited = AsyncRun(
            client.awaited, run_id, group=group, tenant_id=tenant_id, owner=owner, lease_ms=lease_ms
        )

    @property
    def run_id(self) -> str:
        return self._awaited.run_id

    @overload
    def step(
        self,
        key: str,
        *,
        effect: StepEffect = "unknown",
        ttl: float | dt.timedelta | None = None,
        parent: str | Step | None = None,
        wait: float | None = None,
    ) -> Step: ...

    @overload
    def step(self, key: Callable[_Given, _Result]) -> Callable[_Given, _Result]: ...

    def step(
        self,
        key: str | Callable[..., Any],
        *,
        effect: StepEffect = "unknown",
        ttl: float | dt.timedelta | None = None,
        parent: str | Step | None = None,
        wait: float | None = None,
    ) -> Step | Callable[..., Any]:
        """A step for `with`, or a decorator; `@run.step` alone takes the function's name as the key.

        `effect` says what a crash between effect and commit means. `ttl` (seconds) is how long the result
        lasts, 7 days where it is not given. `parent` is the enclosing step of this run unless another is
        named. `wait` limits the seconds to wait for a process that is at the step.
        """
        if not isinstance(key, str):
            return self.step(key.__name__)(key)
        above = parent.key if isinstance(parent, Step) else parent
        return Step(self, self._awaited.step(key, effect=effect, ttl=ttl, parent=above, wait=wait))

    def resolve(self, key: str, *, happened: bool, result: Any = msgspec.UNSET) -> None:
        """Decide what became of an unknown step: it never runs again, or it may. Needs the role `admin`.

        Raises EffectHeld while a process is at the step, and EffectDone for one that is committed.
        """
        self.client.thread.run(self._awaited.resolve(key, happened=happened, result=result))

    def call(
        self,
        key: str,
        function: Callable[..., Any],
        *args: Any,
        effect: StepEffect = "unknown",
        ttl: float | dt.timedelta | None = None,
        **named: Any,
    ) -> Any:
        """The result of the function, which runs once for this step."""
        return self.step(key, effect=effect, ttl=ttl)(function)(*args, **named)
