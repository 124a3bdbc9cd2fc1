"""Delivery terms, deadlines and delays of a partition, for the few messages that have them.

Four arrays in the order of ordinals: 28 bytes for a message that has any, nothing for the others.
"""

from array import array
from bisect import bisect_left
from collections.abc import Iterator, Sequence

from driftq.core.delays import Delays


class TermsTable:
    """Terms, deadlines and delays by ordinal."""

    __slots__ = ("_deadlines", "_delays", "_terms", "delays", "ordinals")

    def __init__(self) -> None:
        self.ordinals = array("Q")
        """Of the messages that have any."""
        self._terms = array("I")
        self._deadlines = array("Q")
        self._delays = array("Q")
        """Twice the instant, plus one while the message is delayed."""
        self.delays = Delays()

    def add_run(
        self,
        first: int,
        terms: Sequence[int] | None,
        deadlines: Sequence[int] | None,
        delays: Sequence[int] | None = None,
    ) -> None:
        """Record the terms, deadlines and instants of the messages from this ordinal on; 0 is none."""
        count = len(terms or deadlines or delays or ())
        none = bytes(count)
        for ordinal, number, deadline, deliver_at in zip(
            range(first, first + count), terms or none, deadlines or none, delays or none, strict=True
        ):
            if number or deadline or deliver_at:
                self.ordinals.append(ordinal)
                self._terms.append(number)
                self._deadlines.append(deadline)
                self._delays.append(deliver_at * 2 + 1 if deliver_at else 0)
                if deliver_at:
                    self.delays.add(ordinal, deliver_at)

    def terms_at(self, ordinal: int) -> int:
        """Number of the message's terms; 0 is the default."""
        slot = self._slot(ordinal)
        return 0 if slot is None else self._terms[slot]

    def deadline_at(self, ordinal: int) -> int:
        """The message's deadline; 0 is none."""
        slot = self._slot(ordinal)
        return 0 if slot is None else self._deadlines[slot]

    def is_delayed(self, ordinal: int) -> bool:
        """Whether the message still waits for its instant."""
        slot = self._slot(ordinal)
        return slot is not None and self._delays[slot] & 1 == 1

    def end_delay(self, ordinal: int) -> None:
        """The instant of a delayed message has come."""
        slot = self._slot(ordinal)
        if slot is not None and self._delays[slot] & 1:
            self._delays[slot] -= 1
            self.delays.count -= 1

    def next_instant(self) -> int | None:
        """The earliest instant that a message still waits for."""
        return self.delays.first_at(self.is_delayed) if self.delays.count else None

    def due(self, wall: int, *, limit: int) -> list[int]:
        """At most `limit` delayed messages whose instant has come, earliest first."""
        return self.delays.due(wall, self.is_delayed, limit=limit)

    def count_delayed(self, start: int, stop: int | None = None) -> int:
        """How many messages from this ordinal on are delayed. Free where none lies before it."""
        if not self.delays.count:
            return 0
        begin = bisect_left(self.ordinals, start)
        if stop is None and begin == 0:
            return self.delays.count
        end = len(self.ordinals) if stop is None else bisect_left(self.ordinals, stop)
        return sum(self._delays[slot] & 1 for slot in range(begin, end))

    def between(self, start: int, stop: int) -> Iterator[tuple[int, int, int, bool]]:
        """Ordinal, terms, deadline, and whether it is delayed, of each message here that has any of them."""
        for slot in range(bisect_left(self.ordinals, start), len(self.ordinals)):
            ordinal = self.ordinals[slot]
            if ordinal >= stop:
                return
            yield ordinal, self._terms[slot], self._deadlines[slot], self._delays[slot] & 1 == 1

    def first_delivered_after(self, at: int, *, stop: int) -> int:
        """The first ordinal below `stop` whose message had a later instant than `at`; else `stop`.

        It looks at those before it only, which the caller drops.
        """
        for slot, ordinal in enumerate(self.ordinals):
            if ordinal >= stop:
                break
            if self._delays[slot] >> 1 > at:
                return ordinal
        return stop

    def _slot(self, ordinal: int) -> int | None:
        slot = bisect_left(self.ordinals, ordinal)
        found = slot < len(self.ordinals) and self.ordinals[slot] == ordinal
        return slot if found else None

    def trim(self, first: int) -> None:
        """Forget messages below this ordinal."""
        gone = bisect_left(self.ordinals, first)
        if gone:
            if self.delays.count:
                self.delays.count -= self.count_delayed(0, first)
            del self.ordinals[:gone], self._terms[:gone], self._deadlines[:gone], self._delays[:gone]

    def dump(self) -> tuple[bytes, bytes, bytes]:
        return self.ordinals.tobytes(), self._terms.tobytes(), self._deadlines.tobytes()

    def dump_delays(self) -> bytes:
        """Empty where no message has an instant."""
        return self._delays.tobytes() if any(self._delays) else b""

    def load(self, dumped: tuple[bytes, bytes, bytes], delays: bytes = b"") -> None:
        for numbers, octets in zip((self.ordinals, self._terms, self._deadlines), dumped, strict=True):
            numbers.frombytes(octets)
        self._delays.frombytes(delays or bytes(8 * len(self.ordinals)))
        self.delays.load(
            (ordinal, delay >> 1)
            for ordinal, delay in zip(self.ordinals, self._delays, strict=True)
            if delay & 1
        )
