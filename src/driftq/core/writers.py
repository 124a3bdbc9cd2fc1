"""Writers: clients that append by position, each with its current epoch and the position of its lanes.

A lane is an ordered part of a writer's messages. Positions in it rise, so that a repeated message is
recognized. An epoch is a fencing token: of two runs of one writer the older is refused.
"""

import msgspec

NOTHING_YET = -1
"""The position of a lane that has nothing."""


class PositionWriter(msgspec.Struct):
    """One writer on one topic. It is kept as long as its topic: a forgotten one would write twice."""

    epoch: int = 0
    lanes: dict[int, int] = msgspec.field(default_factory=dict)
    """The last position of each lane."""

    def position(self, lane: int) -> int:
        return self.lanes.get(lane, NOTHING_YET)
