"""When to look at which group's partition again: ends of leases and due retries, exact, never a scan."""

import heapq

from driftq.core.group import Group, GroupPartition


class Timers:
    """At most one live entry a partition of a group; an overtaken one is passed over when it comes up."""

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, int]] = []
        self._groups: dict[int, Group] = {}

    def clear(self) -> None:
        self._heap.clear()
        self._groups.clear()

    def note(self, group: Group, partition: int) -> None:
        """Look again when the next lease ends or the next retry is due."""
        progress = group.partitions[partition]
        due = _next(progress)
        if due is not None and (progress.timer_at is None or due < progress.timer_at):
            progress.timer_at = due
            self._groups[group.id] = group
            heapq.heappush(self._heap, (due, group.id, partition))

    def ring(self, group: Group, partition: int, *, at: int) -> None:
        """Look at this time, whatever else is due."""
        group.partitions[partition].timer_at = at
        self._groups[group.id] = group
        heapq.heappush(self._heap, (at, group.id, partition))

    def next_at(self) -> int | None:
        return self._heap[0][0] if self._heap else None

    def pop_due(self, now: int) -> list[tuple[Group, int]]:
        """The partitions whose time has come."""
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
