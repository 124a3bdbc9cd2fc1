"""The error of a forked child that uses an object of its parent."""

from __future__ import annotations


class UsedAfterFork(Exception):
    """The object belongs to the process that made it; a forked child cannot use it."""

    def __init__(self, what: str, *, instead: str) -> None:
        super().__init__(f"{what} belongs to the process that this one was forked from: {instead}")
        self.what = what
        self.instead = instead
