"""Judges retries and dead letters: never more attempts than allowed, and one end a message and group."""

from __future__ import annotations

from dataclasses import dataclass, field

from driftq.model import DeadLetterFacts, Delivery
from driftq.testing.checkers import require


@dataclass(slots=True)
class Fragile:
    """A message that may be given up, as its producer meant it."""

    value: str
    max_attempts: int
    backoff_ms: int
    deadline: int | None


@dataclass(slots=True)
class _Course:
    """One message in one group."""

    attempts: int = 0
    received_at: int = 0
    acked: bool = False
    perhaps_acked: bool = False
    hopeless: bool = False
    """Somebody said that it is not retryable."""
    letters: list[DeadLetterFacts] = field(default_factory=list)


class LetterChecker:
    """Takes in deliveries of fragile messages, their ends, and the dead letters."""

    def __init__(self, groups: tuple[str, ...]) -> None:
        self._groups = groups
        self._meant: dict[str, Fragile] = {}
        self.stored: dict[int, str] = {}
        """Values by offset, as far as they were seen."""
        self._courses: dict[tuple[int, str], _Course] = {}

    def meant(self, fragile: Fragile) -> None:
        self._meant[fragile.value] = fragile

    def course(self, offset: int, group: str) -> _Course:
        return self._courses.setdefault((offset, group), _Course())

    def delivered(self, group: str, delivery: Delivery, *, now: int, slack_ms: int) -> None:
        fragile = self._meant[delivery.value]
        name = f"{delivery.value} for {group}"
        self.stored[delivery.offset] = delivery.value
        course = self.course(delivery.offset, group)
        most = fragile.max_attempts
        require(
            delivery.attempts > course.attempts, "W3", f"{name}: {delivery.attempts} after {course.attempts}"
        )
        require(not most or delivery.attempts <= most, "D3", f"{name}: attempt {delivery.attempts} of {most}")
        require(not course.acked, "A3", f"{name} was acked and comes again")
        require(not course.letters, "D3", f"{name} is a dead letter and comes again")
        late = fragile.deadline is not None and now - slack_ms > fragile.deadline
        require(not late, "P3", f"{name} comes at {now}, its deadline was {fragile.deadline}")
        course.attempts = delivery.attempts
        course.received_at = now

    def letter(self, value: str, facts: DeadLetterFacts) -> None:
        """A dead letter was read, for the first time."""
        fragile = self._meant[value]
        self.stored.setdefault(facts.original_offset, value)
        require(
            self.stored[facts.original_offset] == value, "D4", f"{value} is not at {facts.original_offset}"
        )
        course = self.course(facts.original_offset, facts.group)
        name = f"{value} for {facts.group}"
        require(not course.letters, "D4", f"{name} has two dead letters")
        require(facts.group in self._groups, "D4", f"{name}: there is no such group")
        require(not course.acked, "D3", f"{name} was acked and is a dead letter")
        require(facts.attempts >= course.attempts, "E4", f"{name}: {facts} after {course.attempts} attempts")
        match facts.reason:
            case "max_attempts":
                require(facts.attempts == fragile.max_attempts, "D3", f"{name}: {facts}")
            case "not_retryable":
                require(course.hopeless, "D5", f"{name}: nobody said so: {facts}")
            case reason:
                late = reason == "deadline_exceeded" and fragile.deadline is not None
                require(late, "P3", f"{name}: {facts}")
        course.letters.append(facts)

    def ended(self, offsets: set[int]) -> None:
        """Everything was drained: each message has ended for each group, in one way."""
        for offset in offsets:
            for group in self._groups:
                course = self.course(offset, group)
                ends = course.acked or course.perhaps_acked or bool(course.letters)
                require(ends, "D4", f"message {offset} never ended for {group}: {course}")
