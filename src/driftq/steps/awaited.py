"""Steps on an event loop: begin, heartbeats while the block runs, commit, and what an error in it means.

A step's grant is an effect of `/v1/idempotency`. Its lease is extended three times per lease while the block
runs, so a lease that lapses means that the process is gone or cut off.
"""

from __future__ import annotations

import asyncio
import contextlib
import datetime as dt
import functools
import logging
import uuid
from collections.abc import Awaitable, Callable
from contextvars import ContextVar, Token
from typing import Any, Literal, ParamSpec, Self, TypeVar

import msgspec

from driftq.client import AlreadyCommitted, AsyncClient, Begun, Held, LeftUnknown
from driftq.client.consuming.subscription import LEASE_MS, new_owner
from driftq.errors import (
    DriftQError,
    FailedPrecondition,
    InvalidArgument,
    StepHeld,
    StepUnfinished,
    StepUnknown,
)
from driftq.model.backoff import doubled

_Given = ParamSpec("_Given")
_Result = TypeVar("_Result")

StepEffect = Literal["unknown", "idempotent"]
STEPS_TOPIC = "steps"
POLL_FIRST_S = 0.05
POLL_LONGEST_S = 1.0
ERROR_CHARACTERS_MAX = 2_000

logger = logging.getLogger("driftq.steps")
_enclosing: ContextVar[tuple[str, str] | None] = ContextVar("driftq_step", default=None)
"""Run and key of the step whose block is running."""


class NothingHappened(Exception):
    """Raise it in the block of a step to say that the effect did not happen: the step may run again."""


class AsyncStep:
    """One step. `done` says whether it ran before, and then `result` is what it gave."""

    def __init__(
        self,
        run: AsyncRun,
        key: str,
        *,
        effect: StepEffect,
        ttl_ms: int | None,
        parent: str | None,
        wait_s: float | None,
    ) -> None:
        self._run = run
        self.key = key
        self.effect: StepEffect = effect
        self.parent = parent
        self._ttl_ms = ttl_ms
        self._wait_s = wait_s
        self._grant: Begun | None = None
        self._beating: asyncio.Task[None] | None = None
        self._outer: Token[tuple[str, str] | None] | None = None
        self.done = False
        """Whether the step is committed: by an earlier run, or by `finish`."""
        self.result: Any = None
        self.lost = False
        """Whether another process may have taken the step over: `finish` will be refused."""

    async def begin(self) -> None:
        """Claim the step, or learn its result. Waits while another process is at it.

        Raises StepUnknown, and StepHeld when the wait was limited and is over.
        """
        owner = f"{self._run.owner}/{uuid.uuid4().hex[:12]}"
        answer = await self._ask(owner)
        if isinstance(answer, AlreadyCommitted):
            self.done, self.result = True, answer.result
            return
        self._grant = answer
        self._beating = asyncio.create_task(self._beat())

    async def finish(self, result: Any = None) -> None:
        """Commit the step with its result, which must be JSON. Raises EffectSuperseded when it was lost."""
        if self._grant is None:
            raise InvalidArgument("step", f"{self.key!r} is not under way")
        try:
            text = msgspec.json.encode(result)
        except (TypeError, ValueError, RecursionError, OverflowError) as wrong:
            raise InvalidArgument("result", f"cannot be written as JSON: {wrong}") from wrong
        await self._run.client.idempotency.mark_success(self._grant, result=msgspec.Raw(text))
        await self._let_go()
        # As a later run will read it, so that both see the same.
        self.done, self.result = True, msgspec.json.decode(text)

    async def nothing_happened(self, error: str = "nothing happened") -> None:
        """Say that the effect did not happen: the step may run again, also one of effect `unknown`."""
        if self._grant is not None:
            grant = self._grant
            await self._let_go()
            await self._run.client.idempotency.mark_failure(grant, error=error[:ERROR_CHARACTERS_MAX])

    async def end(self, error: BaseException | None) -> None:
        """The block is over. Raises StepUnfinished when it neither finished nor failed."""
        if self._grant is None:
            return
        said = f"{type(error).__name__}: {error}" if error is not None else "ended without a result"
        try:
            if self.effect == "idempotent" or isinstance(error, NothingHappened):
                await self.nothing_happened(said)
            else:
                await self._leave_unknown()
        except (DriftQError, asyncio.CancelledError) as failure:
            # The grant lapses by itself, and then means the same.
            logger.warning("step %r of run %r could not be ended: %s", self.key, self._run.run_id, failure)
        if error is None:
            raise StepUnfinished(self._run.run_id, self.key)

    async def __aenter__(self) -> Self:
        await self.begin()
        self._outer = _enclosing.set((self._run.run_id, self.key))
        return self

    async def __aexit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if self._outer is not None:
            _enclosing.reset(self._outer)
        await self.end(error)

    def __call__(
        self, function: Callable[_Given, Awaitable[_Result]]
    ) -> Callable[_Given, Awaitable[_Result]]:
        """Make a step of a function: it runs once for the run, and each call returns its result."""
        first = self

        @functools.wraps(function)
        async def stepped(*args: _Given.args, **named: _Given.kwargs) -> _Result:
            async with first.again() as step:
                if not step.done:
                    await step.finish(await function(*args, **named))
            result: _Result = step.result
            return result

        return stepped

    def again(self) -> AsyncStep:
        """The same step, not begun."""
        return AsyncStep(
            self._run,
            self.key,
            effect=self.effect,
            ttl_ms=self._ttl_ms,
            parent=parent_key(self._run.run_id, self.parent),
            wait_s=self._wait_s,
        )

    async def _ask(self, owner: str) -> Begun | AlreadyCommitted:
        identity = self._run.identity(self.key)
        effects = self._run.client.idempotency
        clock = asyncio.get_running_loop().time
        end = None if self._wait_s is None else clock() + self._wait_s
        pause_s = POLL_FIRST_S
        while True:
            answer = await effects.begin(
                **identity,
                owner=owner,
                lease_ms=self._run.lease_ms,
                effect=self.effect,
                ttl_ms=self._ttl_ms,
                parent_step_id=self.parent,
            )
            if isinstance(answer, LeftUnknown):
                raise StepUnknown(self._run.run_id, self.key, owner=answer.owner)
            if not isinstance(answer, Held):
                return answer
            if answer.owner == owner:  # Granted to us, and the response was lost.
                found = await effects.status(**identity)
                if found.status == "PENDING" and found.owner == owner:
                    return Begun(**identity, owner=owner, token=found.token)
            if end is not None and clock() + pause_s > end:
                raise StepHeld(self._run.run_id, self.key, owner=answer.owner)
            await asyncio.sleep(pause_s)
            pause_s = doubled(pause_s, cap=POLL_LONGEST_S)

    async def _beat(self) -> None:
        """Extend the lease until the grant is gone."""
        while (grant := self._grant) is not None:
            await asyncio.sleep(self._run.lease_ms / 3000)
            try:
                await self._run.client.idempotency.extend(grant, lease_ms=self._run.lease_ms)
            except FailedPrecondition as refused:
                if self._grant is grant:
                    self.lost = True
                    logger.warning("step %r of run %r was lost: %s", self.key, self._run.run_id, refused)
                return
            except DriftQError as failure:
                logger.warning(
                    "step %r of run %r could not renew its lease: %s", self.key, self._run.run_id, failure
                )

    async def _leave_unknown(self) -> None:
        """As a crash would: begun, not ended, and with a lease that is over."""
        grant = self._grant
        await self._let_go()
        if grant is not None:
            await self._run.client.idempotency.extend(grant, lease_ms=1)

    async def _let_go(self) -> None:
        """End the heartbeats first: one that arrives later would extend what is over."""
        self._grant = None
        if self._beating is not None:
            self._beating.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._beating
            self._beating = None


class AsyncRun:
    """One run of an agent or a workflow, by its id. Use it on one event loop, that of its client."""

    def __init__(
        self,
        client: AsyncClient,
        run_id: str,
        *,
        group: str = "agent",
        tenant_id: str = "",
        owner: str | None = None,
        lease_ms: int = LEASE_MS,
    ) -> None:
        """`lease_ms` is how long after a crash the step is still held for the process that began it."""
        if not run_id or "/" in run_id:
            raise InvalidArgument("run_id", "must not be empty and must not contain a slash")
        self.client = client
        self.run_id = run_id
        self.group = group
        self.tenant_id = tenant_id
        self.owner = owner or new_owner()
        self.lease_ms = lease_ms

    def identity(self, key: str) -> dict[str, Any]:
        """Under which the server knows a step of this run."""
        if not key:
            raise InvalidArgument("step", "must not be empty")
        return {
            "topic": STEPS_TOPIC,
            "group": self.group,
            "idempotency_key": f"step:{self.run_id}/{key}",
            "tenant_id": self.tenant_id,
        }

    def step(
        self,
        key: str,
        *,
        effect: StepEffect = "unknown",
        ttl: float | dt.timedelta | None = None,
        parent: str | AsyncStep | None = None,
        wait: float | None = None,
    ) -> AsyncStep:
        """A step for `async with`, or a decorator of a coroutine function.

        `effect` says what a crash between effect and commit means. `ttl` (seconds) is how long the result
        lasts, 7 days where it is not given. `parent` is the enclosing step of this run unless another is
        named. `wait` limits the seconds to wait for a process that is at the step.
        """
        return AsyncStep(
            self,
            key,
            effect=_checked(effect),
            ttl_ms=_milliseconds(ttl),
            parent=parent_key(self.run_id, parent.key if isinstance(parent, AsyncStep) else parent),
            wait_s=wait,
        )

    async def resolve(self, key: str, *, happened: bool, result: Any = msgspec.UNSET) -> None:
        """Decide what became of an unknown step: it never runs again, or it may. Needs the role `admin`.

        Raises EffectHeld while a process is at the step, and EffectDone for one that is committed.
        """
        body = {**self.identity(key), "as": "committed" if happened else "retry"}
        if result is not msgspec.UNSET:
            body["result"] = result
        await self.client.call("POST", "/v1/idempotency/resolve", body=body, repeatable=True)

    async def call(
        self,
        key: str,
        function: Callable[..., Awaitable[Any]],
        *args: Any,
        effect: StepEffect = "unknown",
        ttl: float | dt.timedelta | None = None,
        **named: Any,
    ) -> Any:
        """The result of the function, which runs once for this step."""
        return await self.step(key, effect=effect, ttl=ttl)(function)(*args, **named)


def parent_key(run_id: str, parent: str | None) -> str | None:
    """The named parent, else the step of this run whose block is running."""
    if parent is not None:
        return parent
    enclosing = _enclosing.get()
    return enclosing[1] if enclosing is not None and enclosing[0] == run_id else None


def enter(run_id: str, key: str) -> Token[tuple[str, str] | None]:
    """From here on this is the enclosing step."""
    return _enclosing.set((run_id, key))


def leave(outer: Token[tuple[str, str] | None]) -> None:
    _enclosing.reset(outer)


def _checked(effect: StepEffect) -> StepEffect:
    if effect not in ("unknown", "idempotent"):
        raise InvalidArgument("effect", 'must be "unknown" or "idempotent"')
    return effect


def _milliseconds(ttl: float | dt.timedelta | None) -> int | None:
    if ttl is None:
        return None
    seconds = ttl.total_seconds() if isinstance(ttl, dt.timedelta) else ttl
    if seconds <= 0:
        raise InvalidArgument("ttl", "must be positive")
    return max(1, round(seconds * 1000))
