"""The waiting jobs of one queue, and how an entry of a heap is made."""

PRIORITIES = 10
AGE_STEP_MS = 60_000
"""A waiting job gains a priority each time this is over."""
BITS = 44
MASK = (1 << BITS) - 1
"""An entry is a due time and, in the lower bits, the offset of the job."""


class JobQueue:
    """The waiting jobs of one queue: two heaps a priority, by due time and then by age."""

    __slots__ = ("heaps", "name", "number", "wall_heaps")

    def __init__(self, name: str, number: int) -> None:
        self.name = name
        self.number = number
        self.heaps: list[list[int]] = [[] for _ in range(PRIORITIES)]
        """Due in engine time."""
        self.wall_heaps: list[list[int]] = [[] for _ in range(PRIORITIES)]
        """Due at an instant of the wall clock."""
