"""Judges producing: each confirmed message is stored once, at its confirmed offset, and nothing else is."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from driftq.core.decide.produce import Duplicate, Outcome
from driftq.errors import DriftQError, Overloaded, TopicNotFound, Unavailable
from driftq.testing.checkers import Circumstances, fnv1a, require
from driftq.testing.intent import Identity, Intent

Spot = tuple[str, int]
"""Topic and offset."""


@dataclass(slots=True)
class _Fate:
    """The facts of a value."""

    intent: Intent
    asked_at: int
    moment: int
    open: int = 0
    """Requests that may have stored it: unanswered, unconfirmed or accepted."""
    spots: set[Spot] = field(default_factory=set)


class StoredChecker:
    """Observes every produce and its answer, and every offset at which a message was seen."""

    def __init__(self, circumstances: Circumstances) -> None:
        self._run = circumstances
        self.partitions: dict[str, int] = {}
        """Topics that were confirmed, with their partition counts."""
        self._fates: dict[str, _Fate] = {}
        self._at: dict[Spot, tuple[int, str]] = {}
        self._claims: dict[Identity, dict[Spot, int]] = {}
        self._atomic: list[list[str]] = []

    def asked(self, intents: list[Intent], *, atomic: bool, now: int) -> None:
        for intent in intents:
            fate = self._fates.setdefault(intent.value, _Fate(intent, now, self._run.next_moment()))
            fate.open += 1
            fate.asked_at = min(fate.asked_at, now)  # The clock may have been set back since.
        if atomic:
            self._atomic.append([intent.value for intent in intents if intent.identity is None])

    def moment_of(self, value: str) -> int:
        """When this value was first produced."""
        return self._fates[value].moment

    def moment_at(self, topic: str, offset: int) -> int:
        """When the message at this offset was first produced."""
        return self.moment_of(self._at[topic, offset][1])

    def answered(self, intents: list[Intent], answer: object, *, atomic: bool, now: int) -> None:
        """Observe the answer to one request."""
        if isinstance(answer, DriftQError):  # 503 for all of it: not confirmed, not absent.
            require(isinstance(answer, Unavailable), "P1", f"a produce was answered by {answer!r}")
            return
        outcomes: list[Outcome] = answer  # type: ignore[assignment]
        require(len(outcomes) == len(intents), "P6", f"{len(outcomes)} outcomes for {len(intents)} messages")
        sunk = atomic and any(isinstance(outcome, DriftQError) for outcome in outcomes)
        for intent, outcome in zip(intents, outcomes, strict=True):
            if isinstance(outcome, DriftQError):
                self._refused(intent, outcome)
            elif sunk:
                self._fates[intent.value].open -= 1
            elif isinstance(outcome, Duplicate):
                self._repeated(intent, outcome)
            else:
                self._accepted(intent, *outcome, now=now)

    def _accepted(self, intent: Intent, partition: int, offset: int, *, now: int) -> None:
        require(not intent.expired, "P2", f"{intent.value} was stored after its deadline")
        if intent.identity is not None:
            for spot, asked_at in self._claims.get(intent.identity, {}).items():
                lapsed = (
                    spot == (intent.topic, offset) or now >= asked_at + self._run.limits.idempotency_ttl_ms
                )
                require(lapsed, "I2", f"{intent.identity} was stored at {spot} and again at {offset}")
        self.seen(intent.topic, partition, offset, intent.value)

    def _repeated(self, intent: Intent, outcome: Duplicate) -> None:
        require(intent.identity is not None, "I1", f"{intent.value} has no key and is called a duplicate")
        assert intent.identity is not None
        fate = self._fates[intent.value]
        fate.open -= 1
        firsts = [spot for spot in self._at if spot[1] == outcome.offset and self._holds(spot, intent)]
        if firsts:
            same = [self._at[first][1] == intent.value for first in firsts]
            told = outcome.payload_mismatch
            require((not told) in same, "I4", f"{intent.value} is said to differ: {told}; {firsts}")
            return
        others = [f for f in self._fates.values() if f.intent.identity == intent.identity and f.open > 0]
        require(bool(others), "I2", f"{intent.identity} is called a duplicate of {outcome.offset}")
        if not outcome.payload_mismatch and fate.open:
            self.seen(intent.topic, outcome.partition, outcome.offset, intent.value)

    def _holds(self, spot: Spot, intent: Intent) -> bool:
        return self._fates[self._at[spot][1]].intent.identity == intent.identity

    def _refused(self, intent: Intent, error: DriftQError) -> None:
        self._fates[intent.value].open -= 1
        known = intent.topic in self.partitions
        require(not (known and isinstance(error, TopicNotFound)), "T2", f"topic {intent.topic} is gone")
        require(not isinstance(error, Unavailable), "P1", f"one message alone was answered by {error!r}")
        if not isinstance(error, Overloaded | TopicNotFound) and known:
            sound = intent.override is None or 0 <= intent.override < self.partitions[intent.topic]
            require(intent.expired or not sound, "P6", f"{intent.value} was refused: {error}")

    def seen(self, topic: str, partition: int, offset: int, value: str) -> None:
        """A client saw this message at this offset."""
        spot = (topic, offset)
        fate = self._fates.get(value)
        require(fate is not None, "P1", f"{value!r} at {spot} was never produced")
        assert fate is not None
        intent = fate.intent
        require(fate.open > 0, "P1", f"{value} is at {spot}, but every produce of it was refused")
        known = self._at.setdefault(spot, (partition, value))
        require(known == (partition, value), "T4", f"{spot} was {known} and is now {(partition, value)}")
        self._run.seen.add(spot)
        if spot in fate.spots:
            return
        fate.spots.add(spot)
        count = self.partitions.get(topic)
        if count is not None:
            expected = intent.override if intent.override is not None else _partition(intent.key, count)
            require(partition == expected, "T3", f"{value} is in partition {partition}, not {expected}")
        if intent.identity is not None:
            self._claims.setdefault(intent.identity, {})[spot] = fate.asked_at
        elif fate.open == 1:
            require(len(fate.spots) == 1, "P1", f"{value} was produced once and is at {sorted(fate.spots)}")

    def judge_headers(self, value: str, headers: dict[str, str] | None) -> None:
        """A message was delivered with these headers."""
        meant = self._fates[value].intent.headers
        require(headers == meant, "P8", f"{value} was produced with {meant} and delivered with {headers}")

    def partition_of(self, intent: Intent) -> int | None:
        """The partition of this message; None when that is unknown."""
        count = self.partitions.get(intent.topic)
        if count is None:
            return None
        return intent.override if intent.override is not None else _partition(intent.key, count)

    def sizes(self, topics: set[str]) -> dict[tuple[str, int], dict[int, int]]:
        """Bytes of key and value of every message that was seen, by topic and partition, then by offset."""
        sizes: dict[tuple[str, int], dict[int, int]] = {}
        for (topic, offset), (partition, value) in self._at.items():
            if topic in topics:
                sizes.setdefault((topic, partition), {})[offset] = self._fates[value].intent.size_bytes
        return sizes

    def possible_sizes(self, topic: str, partition: int) -> tuple[int, int]:
        """How many messages may be in a partition, and their bytes."""
        count = size_bytes = 0
        for fate in self._fates.values():
            if fate.intent.topic == topic and fate.open > 0 and self.partition_of(fate.intent) == partition:
                count += fate.open
                size_bytes += fate.open * fate.intent.size_bytes
        return count, size_bytes

    def audit(
        self,
        contents: Mapping[str, Mapping[int, str]],
        *,
        now: int,
        may_be_gone: Callable[[str, int, int], bool],
    ) -> None:
        """The whole contents of every topic, read from the start at the end of the run.

        `may_be_gone` gets a topic, an offset and the time of the produce, and returns whether every group is
        done with the message; then it may be missing, when it is old enough.
        """
        for topic, messages in contents.items():
            for offset, value in messages.items():
                require(value in self._fates, "P1", f"{value!r} at {(topic, offset)} was never produced")
            if not self._run.crashes and not self._run.failures and not self._run.drops:
                require(sorted(messages) == list(range(len(messages))), "T4", f"gaps in {topic}")
        for topic, offset in sorted(self._run.seen):
            value = self._at[topic, offset][1]
            found = contents.get(topic, {}).get(offset)
            fate = self._fates[value]
            if found is None and self._run.drops and now >= fate.asked_at + self._run.limits.retention_ms:
                require(may_be_gone(topic, offset, fate.moment), "W6", f"{value} was dropped too early")
                continue
            require(found == value, "W1", f"{value} at {(topic, offset)} is lost: found {found!r}")
        ttl_ms = self._run.limits.idempotency_ttl_ms
        for identity, spots in self._claims.items():
            once = len(spots) == 1 or now >= min(spots.values()) + ttl_ms
            require(once, "I3", f"{identity} is stored at {sorted(spots)}")
        stored = {value for messages in contents.values() for value in messages.values()}
        for values in () if self._run.drops else self._atomic:
            kept = sum(value in stored for value in values)
            require(kept in (0, len(values)), "P6", f"{kept} of an atomic batch are there: {values}")


def _partition(key: str, partitions: int) -> int:
    return fnv1a(key) % partitions if key else 0
