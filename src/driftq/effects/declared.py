"""Whether a handler's declaration fits the APIs that it calls, found out before anything runs."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator
from typing import Any

from driftq.effects.http import HttpEffect
from driftq.errors import InvalidArgument
from driftq.registry import Effect


def check_declared(handler: str, call: Callable[..., Any], effect: Effect) -> None:
    """Raise InvalidArgument for an effect that does not fit an HttpEffect which the function names.

    An HttpEffect that it reaches in other ways is checked when it is called, before anything is sent.
    """
    for found in _reached(call):
        if isinstance(found, HttpEffect) and (problem := found.problem_of(handler, effect)):
            raise InvalidArgument("effect", problem)


def _reached(call: Callable[..., Any]) -> Iterator[Any]:
    """What the function names: globals and their attributes, variables around it, defaults, its object."""
    if isinstance(call, functools.partial):
        yield from (*call.args, *call.keywords.values())
        yield from _reached(call.func)
        return
    if inspect.ismethod(call):
        yield from vars(call.__self__).values() if hasattr(call.__self__, "__dict__") else ()
        yield from _reached(call.__func__)
        return
    if not inspect.isfunction(call):
        yield from getattr(call, "__dict__", {}).values()
        inner = vars(type(call)).get("__call__")
        if inspect.isfunction(inner):
            yield from _reached(inner)
        return
    yield from (*(call.__defaults__ or ()), *(call.__kwdefaults__ or {}).values())
    yield from (cell.cell_contents for cell in call.__closure__ or () if _is_set(cell))
    names = call.__code__.co_names
    for name in names:
        found = call.__globals__.get(name)
        yield found
        if inspect.ismodule(found):
            yield from (vars(found).get(other) for other in names)


def _is_set(cell: Any) -> bool:
    try:
        cell.cell_contents  # noqa: B018 - only this says it.
    except ValueError:
        return False
    return True
