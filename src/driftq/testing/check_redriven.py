"""Judges dead letters of recreated topics and groups: none is lost, each is redriven once and correctly.

Values are unique, so a message is identified by its value wherever it is; topics and groups are identified by
their ids, because their names, and perhaps their offsets, are reused.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from driftq.core.dead_lettered import DEADLINE_EXCEEDED
from driftq.core.decide.dead_letters import GROUP_DELETED
from driftq.core.group import ACK_TIMEOUT
from driftq.model import DeadLetterFacts
from driftq.server.dlq.stage import RedriveOutcome
from driftq.testing.checkers import require


@dataclass(frozen=True, slots=True)
class Stand:
    """The topic and its groups as last reported, by their ids."""

    topic: int | None
    groups: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Copy:
    """One stored copy of a message: the original, or one that a redrive made."""

    topic: int
    partition: int
    offset: int


@dataclass(frozen=True, slots=True)
class _Owed:
    """A redriven message that has to reach a group, as long as topic and group exist."""

    letter: int
    value: str
    topic: int
    group: int


class RedriveChecker:
    """Observes produces, deliveries, dead letters and redrives."""

    def __init__(self) -> None:
        self._originals: dict[str, Copy] = {}
        self._given_up: Counter[tuple[str, str, int, int]] = Counter()
        self._dead_letters: dict[int, tuple[str, DeadLetterFacts]] = {}
        self._seen: set[tuple[str, Copy, int]] = set()
        self._perhaps_acked: set[tuple[str, Copy, int]] = set()
        self._asked: dict[str, set[str | None]] = {}
        """The groups for which a redrive of each value was requested; None is all of them."""
        self._sent: set[int] = set()
        self._perhaps_sent: set[int] = set()
        self._owed: list[_Owed] = []

    @property
    def dead_letters(self) -> list[int]:
        """Offsets of the dead letters that were read so far."""
        return list(self._dead_letters)

    def stored(self, value: str, copy: Copy) -> None:
        """A producer's message was confirmed at this offset."""
        self._originals[value] = copy

    def delivered(self, value: str, copy: Copy, *, group: str, group_id: int) -> None:
        self._seen.add((value, copy, group_id))
        original = self._originals.get(value)
        if original is None or original == copy:
            return
        meant = self._asked.get(value, set())
        require(
            group in meant or None in meant,
            "D6",
            f"{value} was redriven for {meant} and comes to {group} as {copy}",
        )

    def acking(self, value: str, copy: Copy, group_id: int) -> None:
        self._perhaps_acked.add((value, copy, group_id))

    def given_up(self, value: str, copy: Copy, *, group: str) -> None:
        """A nack that gives the message up was confirmed."""
        self._given_up[value, group, copy.partition, copy.offset] += 1

    def letter(
        self, offset: int, partition: int, value: str, facts: DeadLetterFacts, *, partitions: int
    ) -> None:
        """A dead letter was read."""
        self._dead_letters[offset] = (value, facts)
        right = facts.original_partition % partitions
        require(partition == right, "D4", f"the letter of {value} is in {partition} of {partitions}: {facts}")

    def redriving(self, offsets: Sequence[int], *, all_groups: bool) -> None:
        for offset in offsets:
            value, facts = self._dead_letters[offset]
            self._asked.setdefault(value, set()).add(None if all_groups else facts.group)

    def perhaps_redriven(self, offsets: Sequence[int]) -> None:
        """The answer was lost, or left the outcome open."""
        self._perhaps_sent.update(offsets)

    def redriven(
        self,
        offsets: Sequence[int],
        answer: RedriveOutcome,
        stand: Stand,
        *,
        all_groups: bool,
        sure: bool,
        pending: set[int],
    ) -> None:
        """A redrive was answered; `sure` when topic and groups did not change meanwhile.

        `pending`: other redrives of these dead letters are under way, and may have been first.
        """
        skipped = [one.offset for one in answer.skipped]
        told = sorted([*answer.sent, *skipped])
        require(told == sorted(offsets), "D6", f"{offsets} were asked for, {answer} was told")
        for offset in answer.sent:
            value, facts = self._dead_letters[offset]
            require(offset not in self._sent, "D6", f"the letter {offset} of {value} was redriven twice")
            require(
                all_groups or not sure or facts.group in stand.groups,
                "D6",
                f"the letter {offset} of {value} was redriven for {facts.group}, which is not there",
            )
            self._sent.add(offset)
            for name, group in stand.groups.items():
                if stand.topic is not None and (all_groups or name == facts.group):
                    self._owed.append(_Owed(offset, value, stand.topic, group))
        for one in answer.skipped:
            facts = self._dead_letters[one.offset][1]
            gone = one.reason == GROUP_DELETED and one.group == facts.group and not all_groups
            right = gone and (not sure or facts.group not in stand.groups)
            known = one.offset in self._sent | self._perhaps_sent | pending
            require(right or known, "D6", f"letter {one.offset} for {facts.group} was skipped: {one}")

    def ended(self, stand: Stand, marked: set[int]) -> None:
        """Everything was drained and all dead letters were read."""
        there = Counter(
            (value, facts.group, facts.original_partition, facts.original_offset)
            for value, facts in self._dead_letters.values()
        )
        for place, times in self._given_up.items():
            require(
                there[place] >= times, "D4", f"{place} was given up {times} times, letters: {there[place]}"
            )
        for value, original in self._originals.items():
            if original.topic == stand.topic:
                self._require_end(value, original, stand, there)
        require(self._sent <= marked, "D6", f"{self._sent - marked} were redriven and are not marked")
        wrong = marked - self._sent - self._perhaps_sent
        require(not wrong, "D6", f"{wrong} are marked and were never redriven")
        for owed in self._owed:
            if owed.topic == stand.topic and owed.group in stand.groups.values():
                self._require_arrival(owed)

    def _require_end(
        self, value: str, original: Copy, stand: Stand, there: Counter[tuple[str, str, int, int]]
    ) -> None:
        for name, group in stand.groups.items():
            dead = there[value, name, original.partition, original.offset] > 0
            ends = dead or (value, original, group) in self._perhaps_acked
            require(ends, "D4", f"{value} at {original} was neither acked nor dead-lettered for {name}")

    def _require_arrival(self, owed: _Owed) -> None:
        original = self._originals.get(owed.value)
        came = any(
            value == owed.value and copy.topic == owed.topic and copy != original and group == owed.group
            for value, copy, group in self._seen
        )
        require(
            came or original is None or self._was_given_up(owed, original),
            "D6",
            f"letter {owed.letter} was redriven, and {owed.value} never came to group {owed.group}",
        )

    def _was_given_up(self, owed: _Owed, original: Copy) -> bool:
        """Whether the copy became a dead letter in its turn, although no consumer saw it.

        Its deadline passed before a delivery, or a kill came between the commit of its last delivery and the
        sending of it.
        """
        return any(
            value == owed.value
            and (facts.reason == DEADLINE_EXCEEDED or facts.last_error == ACK_TIMEOUT)
            and facts.original_offset != original.offset
            for value, facts in self._dead_letters.values()
        )
