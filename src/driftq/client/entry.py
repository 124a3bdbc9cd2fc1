"""One thing that waits in a lane."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Generic, TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")


class Entry(Generic[Item, Result]):
    """One thing that is to be sent, and who wants to know what became of it: a future, or a call."""

    __slots__ = ("expires_at", "item", "retries", "size", "waiter")

    def __init__(
        self,
        item: Item,
        size: int,
        waiter: asyncio.Future[Result] | Callable[[Item, Result | Exception], None],
        expires_at: float,
        retries: int | None,
    ) -> None:
        self.item = item
        self.size = size
        self.waiter = waiter
        self.expires_at = expires_at
        """By the loop's clock: it is not tried again after this."""
        self.retries = retries
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
