"""Delivery terms and deadlines of a partition, for the few messages that have them.

Three arrays in the order of ordinals: 20 bytes for a message that has any, nothing for the others.
"""

from array import array
from bisect import bisect_left
from collections.abc import Sequence


class TermsTable:
    """Terms and deadlines by ordinal."""

    __slots__ = ("_deadlines", "_terms", "ordinals")

    def __init__(self) -> None:
        self.ordinals = array("Q")
        """Of the messages that have any."""
        self._terms = array("I")
        self._deadlines = array("Q")

    def add_run(self, first: int, terms: Sequence[int] | None, deadlines: Sequence[int] | None) -> None:
        """Record the terms and deadlines of consecutive messages, from this ordinal on; 0 is none."""
        count = len(terms or deadlines or ())
        for ordinal, number, deadline in zip(
            range(first, first + count), terms or bytes(count), deadlines or bytes(count), strict=True
        ):
            if number or deadline:
                self.ordinals.append(ordinal)
                self._terms.append(number)
                self._deadlines.append(deadline)

    def terms_at(self, ordinal: int) -> int:
        """Number of the message's terms; 0 is the default."""
        slot = self._slot(ordinal)
        return 0 if slot is None else self._terms[slot]

    def deadline_at(self, ordinal: int) -> int:
        """The message's deadline; 0 is none."""
        slot = self._slot(ordinal)
        return 0 if slot is None else self._deadlines[slot]

    def _slot(self, ordinal: int) -> int | None:
        slot = bisect_left(self.ordinals, ordinal)
        found = slot < len(self.ordinals) and self.ordinals[slot] == ordinal
        return slot if found else None

    def trim(self, first: int) -> None:
        """Forget messages below this ordinal."""
        gone = bisect_left(self.ordinals, first)
        if gone:
            del self.ordinals[:gone], self._terms[:gone], self._deadlines[:gone]

    def dump(self) -> tuple[bytes, bytes, bytes]:
        return self.ordinals.tobytes(), self._terms.tobytes(), self._deadlines.tobytes()

    def load(self, dumped: tuple[bytes, bytes, bytes]) -> None:
        for numbers, octets in zip((self.ordinals, self._terms, self._deadlines), dumped, strict=True):
            numbers.frombytes(octets)
