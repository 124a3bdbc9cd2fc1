"""One entry of a batcher: an item to send and the caller that waits for its result."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

import msgspec

Item = TypeVar("Item")
Result = TypeVar("Result")


Waiter = Callable[[Item, Result | Exception], None] | asyncio.Future[Result]
"""What receives the result: a future, or a callback."""


class Entry(msgspec.Struct, Generic[Item, Result], gc=False):
    """An item to send, and what receives its result."""

    item: Item
    size: int
    waiter: Waiter[Item, Result]
    expires_at: float
    """By the loop's clock; the item is not repeated after this."""
    retries: int | None
    """How often the item may be repeated; None: until it expires."""

    def resolve(self, result: Result | Exception) -> None:
        waiter = self.waiter
        if not isinstance(waiter, asyncio.Future):
            waiter(self.item, result)
        elif waiter.done():
            pass  # The caller has given up.
        elif isinstance(result, Exception):
            waiter.set_exception(result)
        else:
            waiter.set_result(result)

    def may_retry(self, now: float) -> bool:
        if now >= self.expires_at or self.retries == 0:
            return False
        if self.retries is not None:
            self.retries -= 1
        return True


def resolve_all(entries: Sequence[Entry[Item, Result]], results: Sequence[Result]) -> None:
    """Give each entry its result, none of which is an error."""
    for entry, result in zip(entries, results, strict=True):
        waiter = entry.waiter
        if not isinstance(waiter, asyncio.Future):
            waiter(entry.item, result)
        elif not waiter.done():
            waiter.set_result(result)
