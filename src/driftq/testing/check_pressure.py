"""Judges backpressure: a full partition accepts no more messages, and one that is not full refuses none."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from driftq.errors import DriftQError, Overloaded
from driftq.testing.check_delivered import DeliveryChecker
from driftq.testing.check_settled import SettledFact
from driftq.testing.check_stored import StoredChecker
from driftq.testing.checkers import LATE_GROUP, Circumstances, require
from driftq.testing.intent import Intent


@dataclass(frozen=True, slots=True)
class Pressure:
    """The certain facts at a produce: stored messages, and groups that read them."""

    stored: dict[tuple[str, int], dict[int, int]]
    """Sizes by offset, for each topic and partition."""
    settled: dict[tuple[str, str], frozenset[int]]
    """Offsets that each group had certainly settled."""
    groups: dict[tuple[str, str], int]
    """With the moment since when each is there."""


class PressureChecker:
    """Compares what is certainly and what is possibly unsettled with the limits."""

    def __init__(
        self, circumstances: Circumstances, stored: StoredChecker, deliveries: DeliveryChecker
    ) -> None:
        self._run = circumstances
        self._stored = stored
        self._deliveries = deliveries

    def asked(self, intents: list[Intent], groups: Mapping[tuple[str, str], int]) -> Pressure:
        topics = {intent.topic for intent in intents}
        return Pressure(
            stored=self._stored.sizes(topics),
            settled={
                group: frozenset(
                    offset
                    for offset, track in self._deliveries.tracks(*group).items()
                    if track.settled is SettledFact.YES
                )
                for group in self._deliveries.groups()
                if group[0] in topics
            },
            groups={group: since for group, since in groups.items() if group[0] in topics},
        )

    def answered(self, intents: list[Intent], answer: object, before: Pressure, *, now: int) -> None:
        if isinstance(answer, DriftQError):
            return
        for intent, outcome in zip(intents, answer, strict=True):  # type: ignore[call-overload]
            partition = self._stored.partition_of(intent)
            if partition is None:
                continue
            if isinstance(outcome, Overloaded):
                self._judge_refusal(intent, partition, before)
            elif isinstance(outcome, tuple):
                self._judge_room(intent, partition, before, now)

    def _judge_room(self, intent: Intent, partition: int, before: Pressure, now: int) -> None:
        """It was accepted, so no group may certainly have been too far behind."""
        sizes = before.stored.get((intent.topic, partition), {})
        limits = self._run.limits
        for (topic, group), since in before.groups.items():
            if topic != intent.topic or group == LATE_GROUP:
                continue  # The start of a late group is not visible from outside.
            away_ms = now - self._deliveries.seen_at(topic, group)
            if self._run.drops and away_ms >= limits.retention_ms:
                continue  # A group that was absent for the retention does not count.
            tracks = self._deliveries.tracks(topic, group)
            left = [
                size
                for offset, size in sizes.items()
                if self._may_count(topic, offset, since)
                and (
                    offset not in tracks
                    or (tracks[offset].settled is SettledFact.NO and not tracks[offset].tickets)
                )
            ]
            room = len(left) < limits.partition_messages_max and sum(left) < limits.partition_bytes_max
            require(room, "P4", f"{intent.value} was taken with {len(left)} unsettled for {group}")

    def _may_count(self, topic: str, offset: int, since: int) -> bool:
        """Whether it was surely there when the group began: an older one may have been dropped before."""
        return not self._run.drops or self._stored.moment_at(topic, offset) > since

    def _judge_refusal(self, intent: Intent, partition: int, before: Pressure) -> None:
        """It was refused, so some group may have been too far behind."""
        limits = self._run.limits
        possible = self._stored.possible_sizes(intent.topic, partition)
        for topic, group in self._run.groups_asked:
            if topic != intent.topic:
                continue
            settled = before.settled.get((topic, group), frozenset())
            sizes = before.stored.get((topic, partition), {})
            gone = [sizes[offset] for offset in settled if offset in sizes]
            if possible[0] - len(gone) >= limits.partition_messages_max:
                return
            if possible[1] - sum(gone) + intent.size_bytes > limits.partition_bytes_max:
                return
        require(False, "P4", f"{intent.value} was refused with room for it: {possible}")
