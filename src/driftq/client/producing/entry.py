"""One thing that waits in a lane."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

import msgspec

Item = TypeVar("Item")
Result = TypeVar("Result")


Waiter = Callable[[Item, Result | Exception], None] | asyncio.Future[Result]
"""Who wants to know what became of a thing: a future, or a call."""


class Entry(msgspec.Struct, Generic[Item, Result], gc=False):
    """What is to be sent, and who wants to know what became of it."""

    item: Item
    size: int
    waiter: Waiter[Item, Result]
    expires_at: float
    """By the loop's clock: it is not tried again after this."""
    retries: int | None
    """How often it may be sent again; None: until it expires."""

    def tell(self, result: Result | Exception) -> None:
        waiter = self.waiter
        if not isinstance(waiter, asyncio.Future):
            waiter(self.item, result)
        elif waiter.done():
            pass  # Whoever asked has given up.
        elif isinstance(result, Exception):
            waiter.set_exception(result)
        else:
            waiter.set_result(result)

    def may_go_again(self, now: float) -> bool:
        if now >= self.expires_at or self.retries == 0:
            return False
        if self.retries is not None:
            self.retries -= 1
        return True


def tell_all(entries: Sequence[Entry[Item, Result]], results: Sequence[Result]) -> None:
    """Tell each entry its result, none of which is an error."""
    for entry, result in zip(entries, results, strict=True):
        waiter = entry.waiter
        if not isinstance(waiter, asyncio.Future):
            waiter(entry.item, result)
        elif not waiter.done():
            waiter.set_result(result)
