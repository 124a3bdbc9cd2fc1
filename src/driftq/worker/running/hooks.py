"""Hooks: functions of the user that a worker calls when a run starts, and when its outcome is settled.

    on_start(context)             before the handler, in its thread
    on_success(context, result)   when the server has confirmed the completion
    on_failure(context, error)    when it has confirmed a failed attempt, also the last one
    on_dead(context, error)       after that, if the worker gave the work up

A hook is called at most once for each outcome, in the process that had it: none is called where the server
decided, as when a lease is over. What a hook raises is logged and changes nothing. Hooks of outcomes run one
after the other in a thread of their own, so that they delay neither handlers nor leases.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from typing import Any, Literal, TypeVar

from driftq.errors import InvalidArgument
from driftq.worker.signatures import awaits, name_of

logger = logging.getLogger("driftq.worker")

HookName = Literal["on_start", "on_success", "on_failure", "on_dead"]
Hook = Callable[..., object]
_Hook = TypeVar("_Hook", bound=Hook)


class Hooks:
    """The hooks of one worker, in the order in which they were declared."""

    def __init__(self, **given: Hook | None) -> None:
        self._by_name: dict[str, list[Hook]] = {}
        for name, hook in given.items():
            if hook is not None:
                self.add(name, hook)

    def add(self, name: str, hook: Hook) -> None:
        """Raises InvalidArgument for an `async` function."""
        if awaits(hook):
            raise InvalidArgument(name, f"{name_of(hook)} must be a plain function, not async")
        self._by_name.setdefault(name, []).append(hook)

    def has(self, *names: HookName) -> bool:
        return any(name in self._by_name for name in names)

    def call(self, name: HookName, *args: Any) -> None:
        """Call the hooks of this name, here and now."""
        for hook in self._by_name.get(name, ()):
            try:
                hook(*args)
            except Exception:
                logger.exception("the hook %s %s failed; the outcome stands", name, name_of(hook))


class Hooked:
    """The decorators of a worker that has hooks."""

    _hooks: Hooks

    def on_start(self, hook: _Hook) -> _Hook:
        """Call the function with the context before each run."""
        self._hooks.add("on_start", hook)
        return hook

    def on_success(self, hook: _Hook) -> _Hook:
        """Call the function with the context and the result after each run that succeeded."""
        self._hooks.add("on_success", hook)
        return hook

    def on_failure(self, hook: _Hook) -> _Hook:
        """Call the function with the context and the error after each attempt that failed."""
        self._hooks.add("on_failure", hook)
        return hook

    def on_dead(self, hook: _Hook) -> _Hook:
        """Call the function with the context and the error when the work was given up."""
        self._hooks.add("on_dead", hook)
        return hook


class HookRunner:
    """Calls hooks for one run of a worker, from its start to its stop."""

    def __init__(self, hooks: Hooks) -> None:
        self._hooks = hooks
        self._thread: ThreadPoolExecutor | None = None
        if hooks.has("on_success", "on_failure", "on_dead"):
            self._thread = ThreadPoolExecutor(1, thread_name_prefix="driftq-hooks")

    def started(self, context: object) -> None:
        self._hooks.call("on_start", context)

    def succeeded(self, context: object, result: object) -> None:
        self._later("on_success", context, result)

    def failed(self, context: object, error: BaseException, *, dead: bool) -> None:
        self._later("on_failure", context, error)
        if dead:
            self.dead(context, error)

    def dead(self, context: object, error: BaseException) -> None:
        self._later("on_dead", context, error)

    def _later(self, name: HookName, *args: Any) -> None:
        if self._thread is not None and self._hooks.has(name):
            self._thread.submit(self._hooks.call, name, *args)

    def starting(self, call: Callable[..., Any]) -> Callable[..., Any]:
        """A handler that calls the hooks of its start first; its last argument is the context."""
        if not self._hooks.has("on_start"):
            return call
        if awaits(call):

            @functools.wraps(call)
            async def awaited(*args: Any) -> Any:
                self.started(args[-1])
                return await call(*args)

            return awaited

        @functools.wraps(call)
        def called(*args: Any) -> Any:
            self.started(args[-1])
            return call(*args)

        return called

    def close(self, timeout_s: float) -> None:
        """Wait for the hooks of all outcomes so far, for so long at most."""
        if self._thread is not None:
            last = self._thread.submit(int)
            if wait([last], timeout_s).not_done:
                logger.warning("hooks did not finish within %g s", timeout_s)
            self._thread.shutdown(wait=False)
