"""Judges reads: no later read contradicts an earlier one, whatever crashed in between."""

from __future__ import annotations

from driftq.errors import TopicNotFound
from driftq.server.topics.views import GroupView, PartitionView, TopicView
from driftq.testing.check_delivered import DeliveryChecker
from driftq.testing.check_settled import SettledFact
from driftq.testing.check_stored import StoredChecker
from driftq.testing.checkers import Circumstances, require


class ReadChecker:
    """Observes topic views. Offsets, acks and counts only grow."""

    def __init__(
        self, circumstances: Circumstances, stored: StoredChecker, deliveries: DeliveryChecker
    ) -> None:
        self._run = circumstances
        self._stored = stored
        self._deliveries = deliveries
        self._partitions: dict[tuple[str, int], PartitionView] = {}
        self._groups: dict[tuple[str, str, int], tuple[GroupView, int]] = {}

    def answered(self, topic: str, answer: object) -> None:
        if isinstance(answer, TopicNotFound):
            require(topic not in self._stored.partitions, "T2", f"topic {topic} is gone")
            return
        if not isinstance(answer, TopicView):
            return  # The server has stopped, and says so.
        counts = {}
        for view in answer.partitions:
            self._judge_partition(topic, view)
            counts[view.partition] = view.messages
        shown = {(group.group, group.partition) for group in answer.groups}
        for (name, group, partition), _ in self._groups.items():
            require(name != topic or (group, partition) in shown, "P1", f"group {group} of {topic} is gone")
        for progress in answer.groups:
            self._judge_group(topic, progress, counts[progress.partition])

    def _judge_partition(self, topic: str, view: PartitionView) -> None:
        before = self._partitions.get((topic, view.partition))
        self._partitions[topic, view.partition] = view
        if before is not None and self._run.drops:
            grown = view.first_offset >= before.first_offset and view.next_offset >= before.next_offset
            require(grown, "P1", f"{topic}: a read showed {before}, a later one {view}")
        elif before is not None:
            kept = (
                view.messages >= before.messages
                and view.bytes >= before.bytes
                and view.next_offset >= before.next_offset
            )
            require(kept, "P1", f"{topic}: a read showed {before}, a later one {view}")
            if before.messages:
                require(view.first_offset == before.first_offset, "P1", f"{topic}: {before}, then {view}")

    def _judge_group(self, topic: str, view: GroupView, messages: int) -> None:
        settled = messages - view.lag
        known = self._groups.get((topic, view.group, view.partition))
        self._groups[topic, view.group, view.partition] = (view, settled)
        if known is not None:
            before, settled_before = known
            kept = view.acked >= before.acked and view.floor >= before.floor
            kept = kept and (settled >= settled_before or self._run.drops)
            require(kept, "P1", f"{topic}: a read showed {before}, a later one {view}")
        require(view.in_flight <= self._run.limits.in_flight_max, "G2", f"{topic}: {view}")
        tracks = self._deliveries.tracks(topic, view.group)
        certain = [
            offset
            for offset, track in tracks.items()
            if track.partition == view.partition and track.settled is SettledFact.YES
        ]
        if certain:
            require(view.acked >= max(certain), "A3", f"{topic}: {max(certain)} was acked, but: {view}")
        require(
            settled >= len(certain) or self._run.drops,
            "A3",
            f"{topic}: {len(certain)} acks were confirmed, but: {view}",
        )
