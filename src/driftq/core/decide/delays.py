"""The end of delays: messages whose instant has come."""

from array import array

from driftq.core.records import DelaysEnded
from driftq.core.state import State

DUE_MAX = 1_000


def decide_due(state: State, *, now: int, wall: int) -> DelaysEnded | None:
    """The next messages of one partition whose instant has come; None when there are none.

    Instants are compared with `wall`. One look at the schedule, however many messages are delayed.
    """
    head = state.next_delay()
    if head is None or head[0] > wall:
        return None
    _, topic, partition = head
    ordinals = topic.partitions[partition].index.specials.due(wall, limit=DUE_MAX)
    return DelaysEnded(at=now, topic=topic.id, partition=partition, ordinals=array("Q", ordinals).tobytes())
