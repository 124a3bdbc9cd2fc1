"""What clients of a dying server have seen: confirmed messages, deliveries, answers to acks and nacks."""

from __future__ import annotations

import threading
from collections import defaultdict
from dataclasses import dataclass, field
from typing import NamedTuple


class Place(NamedTuple):
    partition: int
    offset: int


class ReceivedLine(NamedTuple):
    """One line of a consume stream, as its reader got it."""

    worker: str
    attempt: int
    value: str
    last_error: str


class Settled(NamedTuple):
    """An ack or nack and what is known of it."""

    attempt: int
    confirmed: bool
    """A 204 was seen; otherwise it may or may not have happened."""
    sent_at: float
    answered_at: float


@dataclass
class GroupHistory:
    """All that one group's workers have seen, by place."""

    deliveries: dict[Place, list[ReceivedLine]] = field(default_factory=lambda: defaultdict(list))
    acks: dict[Place, list[Settled]] = field(default_factory=lambda: defaultdict(list))
    nacks: dict[Place, list[Settled]] = field(default_factory=lambda: defaultdict(list))
    firsts: dict[str, list[Place]] = field(default_factory=lambda: defaultdict(list))
    """What each worker got as first attempts, in the order in which it got them."""
    outlived: int = 0
    """Acks confirmed by another process than the one that delivered."""


class History:
    """Filled by many threads, read when they have ended."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.confirmed: dict[str, Place] = {}
        self.sent: set[str] = set()
        self.groups: dict[str, GroupHistory] = defaultdict(GroupHistory)
        self.surprises: list[str] = []

    def sending(self, value: str) -> None:
        with self._lock:
            self.sent.add(value)

    def confirm(self, value: str, place: Place) -> None:
        with self._lock:
            self.confirmed[value] = place

    def deliver(self, group: str, place: Place, seen: ReceivedLine) -> None:
        with self._lock:
            self.groups[group].deliveries[place].append(seen)
            if seen.attempt == 1:
                self.groups[group].firsts[seen.worker].append(place)

    def ack(self, group: str, place: Place, settled: Settled, *, outlived: bool) -> None:
        with self._lock:
            self.groups[group].acks[place].append(settled)
            self.groups[group].outlived += outlived and settled.confirmed

    def nack(self, group: str, place: Place, settled: Settled) -> None:
        with self._lock:
            self.groups[group].nacks[place].append(settled)

    def surprise(self, text: str) -> None:
        """An answer that no server should give."""
        with self._lock:
            self.surprises.append(text)
