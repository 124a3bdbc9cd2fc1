"""Judges of a run: they know only the requests and observations of clients.

Each keeps a small model of what may be true and raises `Violation` as soon as an answer, a delivery or a read
contradicts it. An outcome that a crash or a 503 left open stays open in the model until an observation
decides it.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from driftq.model.options.limits import Limits

LATE_GROUP = "late"
"""The one group whose consumers start at the newest message."""


class Violation(AssertionError):
    """The broker broke a clause of its contract."""

    def __init__(self, clause: str, story: str) -> None:
        super().__init__(f"{clause}: {story}")
        self.clause = clause
        self.story = story


@dataclass(slots=True)
class Circumstances:
    """The facts about a run that the judges may rely on."""

    limits: Limits
    slack_ms: int
    """The longest way from a decision to a client, or from a client to a decision."""
    cold_reads: bool = False
    """Payloads may come late, by the slack at most: one consumer's deliveries after another's later ones."""
    crashes: int = 0
    failures: int = 0
    """Commits that failed."""
    groups_asked: set[tuple[str, str]] = field(default_factory=set)
    """Every (topic, group) that a consumer ever wanted to join."""
    moment: int = 0
    """Grows with every request; gives their order when the clock is set back."""
    seen: set[tuple[str, int]] = field(default_factory=set)
    """Every (topic, offset) that any client saw."""

    @property
    def drops(self) -> bool:
        """Whether messages are dropped within the run because their retention expires."""
        return self.limits.retention_ms < 60_000

    def next_moment(self) -> int:
        self.moment += 1
        return self.moment


def require(holds: bool, clause: str, story: str) -> None:
    """Raise Violation unless the clause holds."""
    if not holds:
        raise Violation(clause, story)


def fnv1a(text: str) -> int:
    """The partitioner's hash, written down a second time."""
    digest = 2166136261
    for octet in text.encode():
        digest = (digest ^ octet) * 16777619 % 2**32
    return digest
