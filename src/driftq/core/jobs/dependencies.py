"""Jobs that wait for other jobs: which jobs each still waits for, and whose waiting is over.

The end of a job costs its own children. What follows for them becomes a record of its own: until that record
is folded, the outcome stays listed here, so that no crash between the two leaves a job blocked.
"""

from collections.abc import Iterable, Mapping

SUCCEEDED = -1
"""The outcome of a job all of whose parents have succeeded; any other outcome is the dead parent."""


class Dependencies:
    """The fold of who waits for whom. Jobs are named by their offsets."""

    __slots__ = ("children", "outcomes", "unmet")

    def __init__(self) -> None:
        self.unmet: dict[int, set[int]] = {}
        """For each blocked job the parents that have not succeeded yet."""
        self.children: dict[int, list[int]] = {}
        """The blocked jobs of each parent that has not ended."""
        self.outcomes: dict[int, int] = {}
        """Blocked jobs whose waiting is over, with what ended it."""

    def block(self, child: int, parents: Iterable[int], *, dead: int | None) -> None:
        """A job waits for these parents; `dead` is one of them that is dead already."""
        self.unmet[child] = set(parents)
        for parent in self.unmet[child]:
            self.children.setdefault(parent, []).append(child)
        if dead is not None:
            self.outcomes[child] = dead

    def ended(self, offset: int, *, succeeded: bool) -> None:
        """A job has ended, as a parent and perhaps as a child that was cancelled."""
        self.forget(offset)
        for child in self.children.pop(offset, ()):
            unmet = self.unmet.get(child)
            if unmet is None or offset not in unmet:
                continue
            if not succeeded:
                self.outcomes.setdefault(child, offset)
                continue
            unmet.discard(offset)
            if not unmet:
                self.outcomes.setdefault(child, SUCCEEDED)

    def forget(self, child: int) -> None:
        """The job no longer waits for others."""
        self.unmet.pop(child, None)
        self.outcomes.pop(child, None)

    def load(self, unmet: Mapping[int, list[int]], outcomes: Mapping[int, int]) -> None:
        """From a snapshot."""
        for child, parents in unmet.items():
            self.block(child, parents, dead=None)
        self.outcomes.update(outcomes)
