"""Timers of a group's partitions, for expiring leases and due retries: exact, without a scan."""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING

from driftq.core.group import Group, GroupPartition
from driftq.core.keys import MessageRef
from driftq.errors import NotConfirmed

if TYPE_CHECKING:
    from driftq.server.turn import Turn

_READ_RETRY_MS = 1_000


class Timers:
    """At most one live entry for each partition of a group; a superseded one is skipped when it is due."""

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, int]] = []
        self._groups: dict[int, Group] = {}

    def clear(self) -> None:
        self._heap.clear()
        self._groups.clear()

    def note(self, group: Group, partition: int) -> None:
        """Look when the next lease ends or the next retry is due."""
        progress = group.partitions[partition]
        due = _next(progress)
        if due is not None and (progress.timer_at is None or due < progress.timer_at):
            progress.timer_at = due
            self._groups[group.id] = group
            heapq.heappush(self._heap, (due, group.id, partition))

    def set(self, group: Group, partition: int, *, at: int) -> None:
        """Look at this time in any case."""
        group.partitions[partition].timer_at = at
        self._groups[group.id] = group
        heapq.heappush(self._heap, (at, group.id, partition))

    def set_when_read(self, turn: Turn, refs: list[MessageRef], group: Group, partition: int) -> None:
        """Read these messages off the loop, then look at once, or after a pause if they cannot be read."""
        now = turn.now

        def read(error: NotConfirmed | None) -> None:
            self.set(group, partition, at=now if error is None else now + _READ_RETRY_MS)

        turn.lookup.fetch(refs, read)

    def next_at(self) -> int | None:
        return self._heap[0][0] if self._heap else None

    def pop_due(self, now: int) -> list[tuple[Group, int]]:
        """The partitions that are due."""
        due: list[tuple[Group, int]] = []
        while self._heap and self._heap[0][0] <= now:
            at, group_id, partition = heapq.heappop(self._heap)
            group = self._groups[group_id]
            progress = group.partitions[partition]
            if progress.timer_at == at:
                progress.timer_at = None
                due.append((group, partition))
        return due


def _next(progress: GroupPartition) -> int | None:
    lease_end, due = progress.leases.next_end(), progress.next_due()
    if lease_end is None or due is None:
        return lease_end if due is None else due
    return min(lease_end, due)
