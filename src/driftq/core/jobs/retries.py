"""When each job is retried, as a column of numbers: most jobs share a few timings."""

from array import array
from collections.abc import Mapping

import msgspec

from driftq.model.backoff import Backoff
from driftq.model.job import FIRST_TIMING, RetryTiming

_SPARE = 64
_encode = msgspec.msgpack.Encoder().encode
_timings = msgspec.msgpack.Decoder(list[RetryTiming])


def wait_ms(timing: RetryTiming, attempt: int, jitter: float) -> int:
    """The wait before the retry after this attempt; `jitter` is a number from 0 to 1."""
    backoff = Backoff(base_ms=timing.base_ms, cap_ms=timing.cap_ms)
    return backoff.full_jitter_ms(attempt, jitter) if timing.full_jitter else backoff.limit_ms(attempt)


class TimingNumbers(dict[RetryTiming | None, int]):
    """The number of each timing; a timing that is looked up for the first time gets the next one."""

    def __init__(self) -> None:
        super().__init__({None: 0, FIRST_TIMING: 0})
        self.timings = [FIRST_TIMING]

    def __missing__(self, timing: RetryTiming) -> int:
        number = self[timing] = len(self.timings)
        self.timings.append(timing)
        return number


class RetryTimings:
    """The timing of every job in the table, by its slot."""

    def __init__(self) -> None:
        self.numbers = array("I")
        """The number of each slot's timing. For a new slot, append `number_of[timing]`."""
        self.number_of = TimingNumbers()

    def at(self, slot: int) -> RetryTiming:
        return self.number_of.timings[self.numbers[slot]]

    def drop(self, count: int) -> None:
        """Drop the first slots, and timings that no job has any more once there are many."""
        del self.numbers[:count]
        timings = self.number_of.timings
        if len(timings) > _SPARE and len(timings) > 2 * len(self.numbers):
            self.number_of = TimingNumbers()
            self.numbers = array("I", [self.number_of[timings[number]] for number in self.numbers])

    def dump(self) -> dict[str, bytes]:
        """For a snapshot."""
        return {"jobs.retries": self.numbers.tobytes(), "jobs.timings": _encode(self.number_of.timings)}

    def load(self, parts: Mapping[str, memoryview], *, slots: int) -> None:
        """From a snapshot; an older one has none, and its jobs have the first timing."""
        if "jobs.retries" not in parts:
            self.numbers = array("I", bytes(4 * slots))
            return
        self.numbers.frombytes(parts["jobs.retries"])
        for timing in _timings.decode(parts["jobs.timings"])[1:]:
            self.number_of[timing]  # Numbers it.
