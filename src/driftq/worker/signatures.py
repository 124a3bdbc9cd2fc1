"""Whether a function can be called the way a worker calls it, found out when it is declared."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

from driftq.errors import InvalidArgument


def check_handler(handler: Callable[..., Any]) -> None:
    """Raise InvalidArgument unless it can be called with a message and a context."""
    name = name_of(handler)
    wanted = f"a handler is def {name}(message: driftq.Message, context: driftq.Context), plain or async"
    signature = _signature(handler, name)
    if signature is not None:
        try:
            signature.bind("message", "context")
        except TypeError as wrong:
            raise InvalidArgument(
                "handler",
                f"{name}{signature} cannot be called with a message and a context ({wrong}): {wanted}",
            ) from None
    check_returns(handler)


def check_returns(call: Callable[..., Any], *, field: str = "handler") -> None:
    """Raise InvalidArgument for a generator: calling it runs none of it."""
    inner = _inner(call)
    if inspect.isgeneratorfunction(inner) or inspect.isasyncgenfunction(inner):
        raise InvalidArgument(
            field, f"{name_of(call)} is a generator, so calling it runs nothing: return instead of yield"
        )


def awaits(call: Callable[..., Any]) -> bool:
    """Whether its call is to be awaited; also an object whose `__call__` is async."""
    return inspect.iscoroutinefunction(_inner(call))


def name_of(call: Callable[..., Any]) -> str:
    return getattr(call, "__name__", None) or type(call).__name__


def _inner(call: Callable[..., Any]) -> Any:
    """The function that runs; `inspect` sees through a partial, and not through an object with `__call__`."""
    if inspect.isroutine(call) or inspect.isclass(call) or isinstance(call, functools.partial):
        return call
    return type(call).__call__


def _signature(call: Callable[..., Any], name: str) -> inspect.Signature | None:
    """None where it is unknown, as for some functions written in C."""
    if not callable(call):
        raise InvalidArgument("handler", f"{name} cannot be called")
    try:
        return inspect.signature(call)
    except ValueError:
        return None
