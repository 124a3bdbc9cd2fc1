"""All schedules, and a heap of when they fire next. No turn looks at a schedule that is not due."""

import heapq

import msgspec

from driftq.core.memory import Memory
from driftq.core.schedules.records import NEVER, ScheduleTerms


class Schedule(msgspec.Struct):
    """A schedule and how far it is. Times are instants of the wall clock."""

    terms: ScheduleTerms
    created_at: int
    """In engine time."""
    next_at: int
    last_at: int = NEVER
    """The latest fire time that has been dealt with; none at or before it fires again."""
    last_job: int = -1
    """The offset of its latest job."""
    paused: bool = False
    fired: int = 0
    """How many jobs it has enqueued."""


class ScheduleTable:
    """The fold of the schedule records."""

    def __init__(self) -> None:
        self.schedules: dict[str, Schedule] = {}
        self.removed: Memory[int] = Memory()
        """The last fire times of removed schedules: one of the same name repeats none of them."""
        self._due: list[tuple[int, str]] = []

    def put(self, schedule: Schedule) -> None:
        """A schedule is new, or its next fire time has changed."""
        self.schedules[schedule.terms.name] = schedule
        if not schedule.paused and schedule.next_at != NEVER:
            heapq.heappush(self._due, (schedule.next_at, schedule.terms.name))

    def next_at(self) -> int | None:
        """The earliest fire time, by the wall clock."""
        while self._due:
            at, name = self._due[0]
            schedule = self.schedules.get(name)
            if schedule is not None and not schedule.paused and schedule.next_at == at:
                return at
            heapq.heappop(self._due)
        return None

    def due(self, wall: int, *, limit: int) -> list[Schedule]:
        """Up to `limit` schedules whose fire time has come, earliest first. They stay due."""
        found: dict[str, Schedule] = {}
        popped: list[tuple[int, str]] = []
        while len(found) < limit and (at := self.next_at()) is not None and at <= wall:
            entry = heapq.heappop(self._due)
            popped.append(entry)
            found[entry[1]] = self.schedules[entry[1]]
        for entry in popped:
            heapq.heappush(self._due, entry)  # They leave when the fire is recorded.
        return list(found.values())

    def last_fire(self, name: str, *, now: int) -> int:
        """The latest fire time of this name, also of a removed schedule; NEVER if there is none."""
        schedule = self.schedules.get(name)
        if schedule is not None:
            return schedule.last_at
        removed = self.removed.find(name, now=now)
        return NEVER if removed is None else removed
