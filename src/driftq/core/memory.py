"""What is remembered of topics and groups that were deleted, so that no number is given out twice.

Entries lie in the order of their deletion. Those whose time is over leave from the front when the next one
comes, so that forgetting costs what is forgotten.
"""

from __future__ import annotations

from typing import Generic, TypeVar

import msgspec

REMEMBERED_MS = 30 * 86_400_000

T = TypeVar("T")


class DeletedTopic(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """The topic that had a name last."""

    id: int
    next_offset: int
    """All offsets that any topic of this name gave out are below."""


class Memory(Generic[T]):
    """Facts by name, each for 30 days."""

    __slots__ = ("_facts",)

    def __init__(self) -> None:
        self._facts: dict[str, tuple[int, T]] = {}
        """When each is forgotten, and what it says."""

    def find(self, name: str, *, now: int) -> T | None:
        """What is remembered of this name; None when that is nothing, or too long ago."""
        until, fact = self._facts.get(name, (0, None))
        return fact if until > now else None

    def remember(self, name: str, fact: T, *, at: int) -> None:
        """Put this in the place of what was known of the name."""
        facts = self._facts
        facts.pop(name, None)  # The newest lies behind all others.
        facts[name] = (at + REMEMBERED_MS, fact)
        while (oldest := next(iter(facts))) != name and facts[oldest][0] <= at:
            del facts[oldest]

    def dump(self, *, now: int) -> list[tuple[str, int, T]]:
        """Name, end and fact of all that is not over, oldest first."""
        return [(name, until, fact) for name, (until, fact) in self._facts.items() if until > now]

    def load(self, dumped: list[tuple[str, int, T]]) -> None:
        """Take over what `dump` gave."""
        self._facts.update({name: (until, fact) for name, until, fact in dumped})
