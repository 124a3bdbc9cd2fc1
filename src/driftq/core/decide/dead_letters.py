"""Dead letters and redriven messages: where they go, and which of them are stored.

No dead letter, no settlement; no redriven message, no mark. Both follow from one rule: what depends on a
message being stored looks at that message's outcome, never at the batch.
"""

from collections.abc import Sequence

import msgspec

from driftq.core.commands import Produce
from driftq.core.decide.produce import Lookup, ProduceBatch, decide_produce
from driftq.core.state import State, Topic

GROUP_DELETED = "group_deleted"
"""The group that dead-lettered the message no longer exists: no group would get it."""
ALREADY_REDRIVEN = "already_redriven"
NOT_FOUND = "not_found"
NOT_STORED = "not_stored"


class Placed(msgspec.Struct):
    """The decision: records to write, and for each command its partition or why it is not stored."""

    batch: ProduceBatch
    partitions: dict[int, int]
    """Partition of each command that is stored, by its index among the commands, in that order."""
    refused: dict[int, str]


def decide_placing(
    state: State, topic: Topic, commands: Sequence[Produce], *, lookup: Lookup, now: int, wall: int
) -> Placed:
    """Place messages that the server itself appends: no limit applies, and each has its own outcome."""
    batch = decide_produce(state, topic, commands, lookup=lookup, now=now, wall=wall, unlimited=True)
    placed = Placed(batch, {}, {})
    for slot, outcome in enumerate(batch.outcomes):
        if isinstance(outcome, tuple):
            placed.partitions[slot] = outcome[0]
        else:
            placed.refused[slot] = str(outcome)
    return placed


def dead_letter_partition(original: int, *, partitions: int) -> int:
    """The partition of a dead letter: the original one, modulo the dead-letter topic's number."""
    return original % partitions


def redrive_partition(original: int, *, partitions: int) -> int | None:
    """The original partition; None, which is the key's partition, when the topic no longer has it."""
    return original if 0 <= original < partitions else None
