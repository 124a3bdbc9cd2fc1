"""Judges deliveries: in order, one at a time, one attempt more each, and never after a confirmed ack."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field

from driftq.model import DeliveryLine
from driftq.testing.check_settled import SettledFact, Track
from driftq.testing.check_stored import StoredChecker
from driftq.testing.checkers import Circumstances, require

GroupName = tuple[str, str]
"""Topic and group."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Listener:
    """A consumer as the judges see it."""

    topic: str
    group: str
    owner: str
    lease_ms: int
    release_on_close: bool


@dataclass(slots=True)
class _GroupFacts:
    tracks: dict[int, Track] = field(default_factory=dict)
    changed: int = 0
    """When a consumer left last, and a delivery may have been lost unseen."""
    epoch: int = 0
    seen_at: int = 0
    """The group was certainly active then, or later."""
    firsts: dict[int, list[tuple[int, int]]] = field(default_factory=dict)
    """Per partition: the highest offset among first deliveries, with each instant at which it rose."""
    listener_first: dict[tuple[Listener, int], int] = field(default_factory=dict)


class DeliveryChecker:
    """Observes every line of every stream."""

    def __init__(self, circumstances: Circumstances, stored: StoredChecker) -> None:
        self._run = circumstances
        self._stored = stored
        self._groups: defaultdict[GroupName, _GroupFacts] = defaultdict(_GroupFacts)
        self._crashed = 0

    def track(self, topic: str, group: str, offset: int) -> Track:
        return self._groups[topic, group].tracks[offset]

    def tracks(self, topic: str, group: str) -> Mapping[int, Track]:
        return self._groups[topic, group].tracks

    def seen_at(self, topic: str, group: str) -> int:
        """The group was certainly active then, or later."""
        return self._groups[topic, group].seen_at

    def groups(self) -> list[GroupName]:
        return list(self._groups)

    def crashed(self) -> None:
        """The server died, and deliveries on their way were lost."""
        self._crashed = self._run.next_moment()
        for facts in self._groups.values():
            facts.epoch += 1
            for track in facts.tracks.values():
                if track.tickets:
                    track.shake()
                    track.tickets.clear()

    def left(self, listener: Listener) -> None:
        """A consumer closed its stream: deliveries on their way to it are not seen."""
        facts = self._groups[listener.topic, listener.group]
        facts.epoch += 1
        facts.changed = self._run.next_moment()
        if listener.release_on_close:
            for track in facts.tracks.values():
                if track.owner == listener.owner:
                    track.shake()

    def delivered(self, listener: Listener, delivery: DeliveryLine, now: int) -> Track:
        """One line of the stream."""
        facts = self._groups[listener.topic, listener.group]
        facts.seen_at = max(facts.seen_at, now - self._run.slack_ms)
        self._stored.seen(listener.topic, delivery.partition, delivery.offset, delivery.value)
        self._stored.judge_headers(delivery.value, delivery.headers)
        track = facts.tracks.get(delivery.offset)
        if track is None:
            name = f"{listener.topic}/{delivery.offset} for {listener.group}"
            track = facts.tracks[delivery.offset] = Track(name, delivery.partition)
            unbroken = max(facts.changed, self._crashed) < self._stored.moment_of(delivery.value)
            require(delivery.attempts >= 1, "D1", f"{name}: the first attempt is {delivery.attempts}")
            require(delivery.attempts == 1 or not unbroken, "D1", f"{name} begins with {delivery.attempts}")
            require(delivery.attempts > 1 or not delivery.last_error, "A6", f"{name}: {delivery.last_error}")
        else:
            self._judge_again(track, facts, listener, delivery, now)
        if delivery.attempts == 1:
            self._judge_order(facts, listener, delivery, now)
        track.delivered(
            owner=listener.owner,
            attempt=delivery.attempts,
            lease_ms=listener.lease_ms,
            epoch=facts.epoch,
            error=delivery.last_error,
            at=now,
            slack=self._run.slack_ms,
        )
        self._judge_in_flight(facts, delivery.partition, now)
        return track

    def _judge_again(
        self, track: Track, facts: _GroupFacts, listener: Listener, delivery: DeliveryLine, now: int
    ) -> None:
        if track.settled is SettledFact.YES:
            overtaking = any(one.owner == listener.owner and one.may_overtake for one in track.tickets)
            late = overtaking or track.late_to == (listener.owner, self._run.crashes)
            require(late, "A3", f"{track.name} was acked and is delivered again")
            track.late_to = None
        elif track.settled is SettledFact.MAYBE and track.epoch != facts.epoch and not track.tickets:
            track.settled = SettledFact.NO
        step = delivery.attempts - track.attempt
        steps = f"{track.name}: attempt {delivery.attempts} after {track.attempt}"
        require(step >= 1, "W3", steps)
        unbroken = track.epoch == facts.epoch
        require(
            step == 1 or not unbroken,
            "D1",
            f"{track.name}: attempt {delivery.attempts} after {track.attempt}",
        )
        require(now >= track.again_from, "G5", f"{track.name} came again {track.again_from - now} ms early")
        allowed = track.errors | track.errors_after_lease()
        if unbroken and not track.loose:
            allowed = track.errors_after_lease()
        require(delivery.last_error in allowed, "A5", f"{track.name}: last_error {delivery.last_error!r}")

    def _judge_order(self, facts: _GroupFacts, listener: Listener, delivery: DeliveryLine, now: int) -> None:
        partition, offset = delivery.partition, delivery.offset
        before = facts.listener_first.get((listener, partition), -1)
        require(offset > before, "T5", f"{listener.group}: first delivery of {offset} after {before}")
        facts.listener_first[listener, partition] = offset
        firsts = facts.firsts.setdefault(partition, [])
        late_ms = self._run.slack_ms if self._run.cold_reads else 0
        floor = max((top for instant, top in firsts if instant < now - late_ms), default=-1)
        require(offset > floor, "T5", f"{listener.group}: {offset} goes out after {floor}")
        if not firsts or offset > firsts[-1][1]:
            firsts.append((now, offset))

    def _judge_in_flight(self, facts: _GroupFacts, partition: int, now: int) -> None:
        held = [
            track
            for track in facts.tracks.values()
            if track.partition == partition and track.surely_held(now)
        ]
        limit = self._run.limits.in_flight_max
        require(len(held) <= limit, "G2", f"{len(held)} in flight, limit {limit}: {[t.name for t in held]}")

    def drained(self, topic: str, group: str, expected: set[int]) -> None:
        """A patient consumer has acked everything that it got: every expected offset must be settled."""
        tracks = self._groups[topic, group].tracks
        missing = [
            offset
            for offset in sorted(expected)
            if offset not in tracks or tracks[offset].settled is SettledFact.NO
        ]
        require(not missing, "G4", f"{topic} for {group}: never delivered to the end: {missing}")
