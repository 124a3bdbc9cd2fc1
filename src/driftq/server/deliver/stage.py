"""Delivering in the engine's turn: ready messages go to the consumers that have credit."""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from typing import ClassVar

from driftq.core.decide import decide_deliveries, decide_due, decide_skips, settled
from driftq.core.group import Group, GroupPartition
from driftq.core.keys import MessageRef
from driftq.core.records import SETTLED_SKIPPED
from driftq.errors import DriftQError, NotConfirmed
from driftq.server.deliver.consumers import Consumers, Members
from driftq.server.deliver.outbox import DeliveryBatch
from driftq.server.requests import DrainedRequest
from driftq.server.settle.dead_letters import DeadLetterWriter
from driftq.server.turn import Turn

_READ_RETRY_MS = 1_000
_DUE_RECORDS_MAX = 20
"""A turn ends the delays of at most so many thousand messages; the next one goes on at once."""


class DeliverStage:
    """Delivers to the groups that were woken, by other stages or by a consumer that has credit again."""

    handles: ClassVar = (DrainedRequest,)
    pending = False  # A woken group waits until deliveries are possible, however many turns that takes.

    def __init__(self, consumers: Consumers, timers: Timers, dead_letters: DeadLetterWriter) -> None:
        self._consumers = consumers
        self._timers = timers
        self._dead_letters = dead_letters
        self._due_at: int | None = None
        """When the next delayed message is due. If the wall clock moves, the next turn computes it anew."""

    @property
    def next_at(self) -> int | None:
        """When a held-back stream may get a message, or a delayed message is due."""
        alarms, due_at = self._consumers.alarms, self._due_at
        if alarms and (due_at is None or alarms[0][0] < due_at):
            return alarms[0][0]
        return due_at

    def submit(self, request: DrainedRequest) -> None:
        self._consumers.wake(request.topic, request.group)

    def reject(self, error: DriftQError) -> None:
        """No request waits for a reply."""

    def decide(self, turn: Turn) -> None:
        """Deliver everything that can be delivered; the batches are sent when the commit is durable."""
        consumers = self._consumers
        self._due_at = None
        if turn.stopping:
            consumers.alarms.clear()
            return
        if turn.state.delays.entries:
            self._end_delays(turn)
        if turn.quiet:
            return
        if consumers.alarms:
            consumers.wake_due(turn.now)
        if consumers.is_awake:
            for members in consumers.take_awake():
                topic = turn.state.topics.get(members.topic)
                group = topic.groups.get(members.group) if topic is not None else None
                if group is not None and members.ready:
                    members.look(turn.now)
                    for partition in list(members.ready):
                        if not self._deliver_partition(turn, members, group, partition):
                            break

    def _end_delays(self, turn: Turn) -> None:
        """Delayed messages whose instant has come: wake the groups of their partitions."""
        state, now = turn.state, turn.now
        for _ in range(0 if turn.quiet else _DUE_RECORDS_MAX):
            record = decide_due(state, now=now, wall=turn.wall)
            if record is None:
                break
            turn.journal.add(record)
            topic = state.topics_by_id[record.topic]
            self._consumers.stored(topic.name, {record.partition})
        head = state.next_delay()
        if head is not None:
            self._due_at = head[0] + now - turn.wall

    def _deliver_partition(self, turn: Turn, members: Members, group: Group, partition: int) -> bool:
        """Deliver while messages are ready; False when no consumer of the group has credit."""
        progress, now = group.partitions[partition], turn.now
        limit = turn.state.limits.in_flight_max
        while progress.has_work(now):
            end = progress.index.end
            delayed: Sequence[int] = ()
            if progress.index.specials.ordinals:
                clear, end, delayed = self._skip(turn, group, partition)
                if not clear:
                    del members.ready[partition]
                    return True
            left = limit - len(progress.leases)
            if left <= 0:
                break  # An ack wakes the group.
            again = bool(progress.waiting) or progress.due_first is not None
            run = 1 if again else members.run_length(group, partition, in_flight_max=limit)
            with_room, capacities = members.capacities(
                group, partition, now, wanted=left if again else min(left, end - progress.upto), run=run
            )
            if not capacities:
                return False
            assignment = decide_deliveries(
                group,
                partition,
                capacities,
                limits=turn.state.limits,
                now=now,
                end=end,
                delayed=delayed,
                run=run,
            )
            if assignment is None:
                break  # All were skipped.
            record = assignment.record
            blocks = turn.journal.add_delivered(record)
            fresh = len(record.fresh)
            for number, (slot, block) in enumerate(zip(assignment.members, blocks, strict=True)):
                member = with_room[slot]
                batch = DeliveryBatch(progress, block, partition=partition, redelivered=number >= fresh)
                turn.deliver(member.outbox, batch)
                block.charge_to(member.credit, size_bytes=batch.size_bytes())
                if member.stall is not None:
                    self._consumers.delivered_to_stalled(members, member, member.stall, now=now)
            turn.counters.delivered += assignment.count
            turn.counters.redelivered += sum(len(block.ordinals) for block in record.redelivered)
            self._timers.note(group, partition)
            if assignment.count:
                members.rotate_behind(with_room[assignment.last])
        if progress.has_work(now):
            members.ready[partition] = members.ready.pop(partition)  # After the others.
        else:
            del members.ready[partition]
        return True

    def _skip(self, turn: Turn, group: Group, partition: int) -> tuple[bool, int, Sequence[int]]:
        """Settle messages that this group skips, and dead-letter those past their deadline.

        Returns False while that has to wait, the ordinal up to which the rest may be delivered, and the
        delayed messages before it.
        """
        topic = turn.state.topics[group.topic]
        while True:  # After the dead-lettered ones there may be more past their deadline.
            skipped, late, end, delayed = decide_skips(
                turn.state, topic, group, partition, now=turn.now, wall=turn.wall
            )
            if skipped:
                turn.journal.add(settled(group, partition, skipped, cause=SETTLED_SKIPPED, now=turn.now))
            if not self._dead_letters.give_up(turn, late, group, partition):
                return False, end, delayed
            if not skipped and not late:
                return True, end, delayed


class Timers:
    """When a turn looks at which partition of a group: at ends of leases and due retries, never by a scan.

    There is at most one live entry a partition of a group; an overtaken one is skipped when its time comes.
    """

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
