"""What happens to threads, sockets and files when a process forks.

A forked child has a copy of its parent's memory, shares its sockets and files, and has none of its threads. A
thread that is waited for there never answers; what is written to a shared socket, or closed on a shared
epoll, is written and closed for the parent as well. So each object that holds a thread, a connection or
a name that fences resets itself in the child:

    in_forked_child(self._reset_in_child)  # called there before anything else runs
    leave_behind(socket)                   # the parent's: never closed here, not even at exit

Objects are held weakly: their hooks end with them.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable
from types import MethodType
from typing import Any, cast
from weakref import WeakKeyDictionary

Hook = Callable[[], None]
Hooks = WeakKeyDictionary[object, Callable[[Any], None]]

_before: Hooks = WeakKeyDictionary()
_after_in_parent: Hooks = WeakKeyDictionary()
_after_in_child: Hooks = WeakKeyDictionary()


def in_forked_child(forget: Hook) -> None:
    """Call this method in a child: it forgets what is the parent's; it closes, sends and awaits nothing."""
    _add(_after_in_child, forget)


def around_fork(rest: Hook, go_on: Hook) -> None:
    """Call `rest` on the thread that is about to fork, and `go_on` in the parent when it has.

    `rest` may wait, for a bounded time: what it has closed is not shared with the child.
    """
    _add(_before, rest)
    _add(_after_in_parent, go_on)


def leave_behind(*things: object) -> None:
    """Keep these until this process ends: releasing them would close what the parent still uses."""
    for thing in things:
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(thing))


def _add(hooks: Hooks, hook: Hook) -> None:
    method = cast(MethodType, hook)
    hooks[method.__self__] = method.__func__


def _call(hooks: Hooks) -> None:
    for one, hook in list(hooks.items()):
        hook(one)


if hasattr(os, "register_at_fork"):  # Windows does not fork.
    os.register_at_fork(
        before=lambda: _call(_before),
        after_in_parent=lambda: _call(_after_in_parent),
        after_in_child=lambda: _call(_after_in_child),
    )
