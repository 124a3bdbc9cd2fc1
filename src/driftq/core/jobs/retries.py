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


class RetryTimings:
    """The timing of every job in the table, by its slot."""

    def __init__(self) -> None:
        self.numbers = array("I")
        self._timings = [FIRST_TIMING]
        self._number_of = {FIRST_TIMING: 0}

    def at(self, slot: int) -> RetryTiming:
        return self._timings[self.numbers[slot]]

    def append(self, timing: RetryTiming | None) -> None:
        self.numbers.append(self._number(timing or FIRST_TIMING))

    def drop(self, count: int) -> None:
        """Drop the first slots, and timings that no job has any more once there are many."""
        del self.numbers[:count]
        if len(self._timings) > _SPARE and len(self._timings) > 2 * len(self.numbers):
            used = [self._timings[number] for number in self.numbers]
            self.numbers, self._timings, self._number_of = array("I"), [FIRST_TIMING], {FIRST_TIMING: 0}
            for timing in used:
                self.append(timing)

    def _number(self, timing: RetryTiming) -> int:
        number = self._number_of.get(timing)
        if number is None:
            number = self._number_of[timing] = len(self._timings)
            self._timings.append(timing)
        return number

    def dump(self) -> dict[str, bytes]:
        """For a snapshot."""
        return {"jobs.retries": self.numbers.tobytes(), "jobs.timings": _encode(self._timings)}

    def load(self, parts: Mapping[str, memoryview], *, slots: int) -> None:
        """From a snapshot; an older one has none, and its jobs have the first timing."""
        if "jobs.retries" not in parts:
            self.numbers = array("I", bytes(4 * slots))
            return
        self.numbers.frombytes(parts["jobs.retries"])
        for timing in _timings.decode(parts["jobs.timings"])[1:]:
            self._number(timing)
