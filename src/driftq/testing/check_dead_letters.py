"""Judges retries and dead letters: never more attempts than allowed, one end for each message and group."""

from __future__ import annotations

from dataclasses import dataclass, field

from driftq.model import DeadLetterFacts, DeliveryLine
from driftq.testing.checkers import require

MAX_BACKOFF_MS = 1_000
"""Of every fragile message's policy."""


@dataclass(slots=True)
class Fragile:
    """A message that may be dead-lettered, as its producer intended it."""

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
    """A worker reported it as not retryable."""
    unstarted: int = 0
    """Deliveries that were certainly returned unstarted."""
    unstarted_asked: int = 0
    """Those that may have been."""
    not_before: int = 0
    """It cannot be redelivered before this."""
    stream: object = None
    """The stream that brought it last."""
    loose: bool = False
    """Its latest delivery may have been ended by something other than an ack or its lease."""
    dead_letters: list[DeadLetterFacts] = field(default_factory=list)


class DeadLetterChecker:
    """Observes deliveries of fragile messages, their ends, and the dead letters."""

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

    def deadline_of(self, value: str) -> int | None:
        return self._meant[value].deadline

    def delivered(self, group: str, delivery: DeliveryLine, *, stream: object, now: int, wall: int) -> None:
        """A line of a stream; `wall` is the earliest time by the wall clock that it may have been sent at."""
        fragile = self._meant[delivery.value]
        name = f"{delivery.value} for {group}"
        self.stored[delivery.offset] = delivery.value
        course = self.course(delivery.offset, group)
        most = fragile.max_attempts
        require(
            delivery.attempts > course.attempts, "W3", f"{name}: {delivery.attempts} after {course.attempts}"
        )
        tries = delivery.attempts - course.unstarted_asked
        require(
            not most or tries <= most, "D3", f"{name}: attempt {delivery.attempts}, try {tries} of {most}"
        )
        require(now >= course.not_before, "D2", f"{name} comes {course.not_before - now} ms early")
        require(not course.acked, "A3", f"{name} was acked and comes again")
        require(not course.dead_letters, "D3", f"{name} is a dead letter and comes again")
        late = fragile.deadline is not None and wall > fragile.deadline
        require(not late, "P3", f"{name} comes at {wall}, its deadline was {fragile.deadline}")
        course.attempts = delivery.attempts
        course.received_at = now
        course.stream = stream
        course.loose = False

    def stream_released(self, stream: object) -> None:
        """A stream closed and released its deliveries."""
        for course in self._courses.values():
            course.loose |= course.stream is stream

    def released(self, group: str, delivery: DeliveryLine, *, now: int) -> None:
        """A stream that certainly held this message closed: after the first try it waits as after a nack."""
        fragile, course = self._meant[delivery.value], self.course(delivery.offset, group)
        tries = delivery.attempts - course.unstarted_asked
        if tries > 1 and course.attempts == delivery.attempts:
            wait_ms = min(fragile.backoff_ms << (tries - 1), MAX_BACKOFF_MS)
            course.not_before = now + (wait_ms if wait_ms < MAX_BACKOFF_MS else MAX_BACKOFF_MS * 3 // 4)

    def read(self, value: str, facts: DeadLetterFacts) -> None:
        """A dead letter was read, for the first time."""
        fragile = self._meant[value]
        self.stored.setdefault(facts.original_offset, value)
        require(
            self.stored[facts.original_offset] == value, "D4", f"{value} is not at {facts.original_offset}"
        )
        course = self.course(facts.original_offset, facts.group)
        name = f"{value} for {facts.group}"
        require(not course.dead_letters, "D4", f"{name} has two dead letters")
        require(facts.group in self._groups, "D4", f"{name}: there is no such group")
        require(not course.acked, "D3", f"{name} was acked and is a dead letter")
        require(facts.attempts >= course.attempts, "E4", f"{name}: {facts} after {course.attempts} attempts")
        match facts.reason:
            case "max_attempts":
                fewest = facts.attempts - course.unstarted_asked
                most = facts.attempts - course.unstarted
                require(fewest <= fragile.max_attempts <= most, "D3", f"{name}: {facts}, {course}")
            case "not_retryable":
                require(course.hopeless, "D5", f"{name}: nobody said so: {facts}")
            case reason:
                late = reason == "deadline_exceeded" and fragile.deadline is not None
                require(late, "P3", f"{name}: {facts}")
        course.dead_letters.append(facts)

    def ended(self, offsets: set[int]) -> None:
        """Everything was drained: each message has ended for each group, in one way."""
        for offset in offsets:
            for group in self._groups:
                course = self.course(offset, group)
                ends = course.acked or course.perhaps_acked or bool(course.dead_letters)
                require(ends, "D4", f"message {offset} never ended for {group}: {course}")
