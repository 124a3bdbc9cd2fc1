"""Calls that several threads make at the same time share one transaction, as the commits of a log do.

The thread that finds nobody at work does the work for all that wait: it takes their calls, performs them in
one go and hands out the results. Calls that arrive meanwhile wait for the next go, which one of their own
threads does. So a lone caller pays nothing, and no thread stays behind when there is nothing to do.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Sequence
from typing import Generic, TypeVar

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")


class _Call(Generic[_Item, _Result]):
    """One call. Its thread is woken when it is answered, or when it is its turn to work for the others."""

    __slots__ = ("answered", "chosen", "error", "item", "kind", "name", "result", "turn")

    def __init__(self, kind: Hashable, name: Hashable, item: _Item) -> None:
        self.kind, self.name, self.item = kind, name, item
        self.turn = _new_turn()
        self.answered = self.chosen = False
        self.error: BaseException | None = None
        self.result: _Result


def _new_turn() -> threading.Lock:
    turn = threading.Lock()
    turn.acquire()
    return turn


class Gathered(Generic[_Item, _Result]):
    """Performs calls together. Any thread may use it."""

    def __init__(self, *, calls_max: int) -> None:
        self._calls_max = calls_max
        self._lock = threading.Lock()
        self._waiting: list[_Call[_Item, _Result]] = []
        self._at_work = False

    def call(
        self,
        kind: Hashable,
        name: Hashable,
        item: _Item,
        work: Callable[[Sequence[_Item]], Sequence[_Result]],
    ) -> _Result:
        """The result of `work` for this item; it gets items of one kind, no two of one name.

        An error is raised for every call of its go, so `work` must not fail for a mistake of one caller.
        """
        mine: _Call[_Item, _Result] = _Call(kind, name, item)
        with self._lock:
            self._waiting.append(mine)
            wait, self._at_work = self._at_work, True
        if wait:
            self._wait(mine)
        if not mine.answered:
            self._work_for_all(mine, work)
        if mine.error is not None:
            raise mine.error
        return mine.result

    def _wait(self, mine: _Call[_Item, _Result]) -> None:
        try:
            mine.turn.acquire()
        except BaseException:  # The caller is interrupted: nobody else must wait for it.
            with self._lock:
                if mine in self._waiting:
                    self._waiting.remove(mine)
                following = self._choose() if mine.chosen else None
            if following is not None:
                following.turn.release()
            raise

    def _choose(self) -> _Call[_Item, _Result] | None:
        """Under the lock: whose thread does the next go."""
        following = self._waiting[0] if self._waiting else None
        self._at_work = following is not None
        if following is not None:
            following.chosen = True
        return following

    def _work_for_all(
        self, mine: _Call[_Item, _Result], work: Callable[[Sequence[_Item]], Sequence[_Result]]
    ) -> None:
        with self._lock:
            calls = self._take(mine)
        try:
            for call, result in zip(calls, work([call.item for call in calls]), strict=True):
                call.result = result
        except BaseException as error:
            for call in calls:
                call.error = error
            raise
        finally:
            with self._lock:
                following = self._choose()
            if following is not None:
                following.turn.release()  # First: the next go begins while these are woken.
            for call in calls:
                call.answered = True
                if call is not mine:
                    call.turn.release()

    def _take(self, mine: _Call[_Item, _Result]) -> list[_Call[_Item, _Result]]:
        """The calls of one go: the worker's own, and those that fit it. The others keep their places."""
        taken, names = [mine], {mine.name}
        left: list[_Call[_Item, _Result]] = []
        for call in self._waiting:
            if call is mine:
                continue
            if call.kind == mine.kind and call.name not in names and len(taken) < self._calls_max:
                taken.append(call)
                names.add(call.name)
            else:
                left.append(call)
        self._waiting = left
        return taken
