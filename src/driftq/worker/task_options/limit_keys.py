"""Limit keys of jobs: a function of a task's arguments, called when a job is enqueued."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

from driftq.errors import InvalidArgument

LimitKeyOf = Callable[..., Any]


class LimitKeyFunction:
    """Computes the key of a job from those arguments of its task that the function names."""

    def __init__(self, call: LimitKeyOf, *, task: str, arguments: inspect.Signature) -> None:
        self._call = call
        self._task = task
        self._arguments = arguments
        named = inspect.signature(call).parameters
        takes_any = any(one.kind is one.VAR_KEYWORD for one in named.values())
        self._names = None if takes_any else [*named]
        unknown = [] if takes_any else [name for name in named if name not in arguments.parameters]
        if unknown:
            raise InvalidArgument("limit_key", f"{task} has no argument {', '.join(map(repr, unknown))}")

    def of(self, payload: Mapping[str, Any]) -> str:
        """The key of a job with these arguments; defaults of the task count."""
        bound = self._arguments.bind(**payload)
        bound.apply_defaults()
        given = bound.arguments
        if self._names is not None:
            given = {name: given[name] for name in self._names}
        key = self._call(**given)
        if key is None or key == "":
            raise InvalidArgument("limit_key", f"of {self._task} is empty; every job of the task needs one")
        return str(key)
