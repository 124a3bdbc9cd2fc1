"""Writers: those who append by position, each with the epoch in force and how far its lanes are.

A lane is an ordered part of what a writer has to say. Positions in it rise, so that what came before is known
when it comes again, and an epoch is a fencing token: of two runs of one writer the older is shut out.
"""

import msgspec

NOTHING_YET = -1
"""The position of a lane that has nothing."""


class PositionWriter(msgspec.Struct):
    """One writer on one topic. It is remembered as long as the topic: a forgotten one would write twice."""

    epoch: int = 0
    lanes: dict[int, int] = msgspec.field(default_factory=dict)
    """The last position of each lane."""

    def position(self, lane: int) -> int:
        return self.lanes.get(lane, NOTHING_YET)
