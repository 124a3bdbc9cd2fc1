"""What a forked child is told."""

from __future__ import annotations


class UsedAfterFork(Exception):
    """This belongs to the process that made it; a child that was forked from that one cannot use it."""

    def __init__(self, what: str, *, instead: str) -> None:
        super().__init__(f"{what} belongs to the process that this one was forked from: {instead}")
        self.what = what
        self.instead = instead
