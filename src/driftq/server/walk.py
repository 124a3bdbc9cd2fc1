"""Long reads of the state, cut into slices so that none of them holds up other requests.

A walk is a generator over the state that yields how much work it has done since its last yield. A slice is
one read of the engine: it sees durable state, and requests are decided between two slices. The state may
change between them, so a walk iterates over copies of names, and looks up again what a name stands for. If
the state was folded once more meanwhile, the walk begins again.

Work is counted in units of about a microsecond.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Generator, Iterable, Iterator
from itertools import chain, islice
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from driftq.core.state import State

UNITS_MAX = 1_000
"""Work of one slice."""
SORTED_AT_ONCE = 20_000
"""Items in a few sorted runs that are cheaper to sort together than to merge one by one."""
_TOGETHER = 250
_UNITS_AN_ITEM = 2

_T = TypeVar("_T")

Walk = Generator[int, None, _T]


class StateWalk(Generic[_T]):
    """A walk that is under way. Call `slice` until it says False, then take the `result`."""

    def __init__(self, begin: Callable[[State], Walk[_T]], *, units_max: int = UNITS_MAX) -> None:
        self._begin = begin
        self._units_max = units_max
        self._state: State | None = None
        self._steps: Walk[_T] | None = None
        self.result: _T

    def slice(self, state: State) -> bool:
        """Do some of the work; False when it is done. Raises what the walk raises."""
        if self._steps is None or state is not self._state:
            self._state, self._steps = state, self._begin(state)
        units = 0
        while units < self._units_max:
            try:
                units += next(self._steps)
            except StopIteration as end:
                self.result = end.value
                return False
        return True


def in_order(
    items: Iterable[str], wanted: Callable[[str], bool], *, at_most: int | None = None
) -> Walk[list[str]]:
    """Those items that are wanted, sorted: the first of them, or all."""
    runs: list[list[str]] = []
    for some in batches(list(items), _TOGETHER):
        runs.append(sorted(filter(wanted, some)))
        yield _UNITS_AN_ITEM * len(some)
    if at_most is None and sum(map(len, runs)) <= SORTED_AT_ONCE:
        return sorted(chain.from_iterable(runs))
    found: list[str] = []
    for some in batches(islice(heapq.merge(*runs), at_most), _TOGETHER):
        found += some
        yield _UNITS_AN_ITEM * len(some)
    return found


def batches(items: Iterable[_T], together: int) -> Iterator[list[_T]]:
    """The items in order, some at a time."""
    rest = iter(items)
    while some := list(islice(rest, together)):
        yield some
