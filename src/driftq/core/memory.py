"""Facts of deleted topics and groups, kept so that no number is used twice.

Entries are in the order of deletion. Expired ones leave from the front when the next one is added, so that
expiry costs only the expired entries.
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
    """All offsets that any topic of this name used are below this."""


class Memory(Generic[T]):
    """Facts by name, each for 30 days."""

    __slots__ = ("_facts",)

    def __init__(self) -> None:
        self._facts: dict[str, tuple[int, T]] = {}
        """When each expires, and the fact."""

    def find(self, name: str, *, now: int) -> T | None:
        """The fact of this name; None when there is none, or it has expired."""
        until, fact = self._facts.get(name, (0, None))
        return fact if until > now else None

    def remember(self, name: str, fact: T, *, at: int) -> None:
        """Replace the fact of this name."""
        facts = self._facts
        facts.pop(name, None)  # The newest goes to the end.
        facts[name] = (at + REMEMBERED_MS, fact)
        while (oldest := next(iter(facts))) != name and facts[oldest][0] <= at:
            del facts[oldest]

    def dump(self, *, now: int) -> list[tuple[str, int, T]]:
        """Name, expiry and fact of all that have not expired, oldest first."""
        return [(name, until, fact) for name, (until, fact) in self._facts.items() if until > now]

    def load(self, dumped: list[tuple[str, int, T]]) -> None:
        """Load the result of `dump`."""
        self._facts.update({name: (until, fact) for name, until, fact in dumped})
