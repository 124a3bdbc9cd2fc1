"""The numbers that a table of rows stores with its commits, and their names.

The writer's number is its epoch and, in the low 32 bits, the batch of that epoch: it only grows, and no two
commits of batches share one.
"""

from __future__ import annotations

import json

from driftq.sinks.port import TopicPartition

_BATCH_BITS = 32


def writer(projection: str) -> str:
    """Of the current run's epoch and its last batch."""
    return projection


def generation(projection: str) -> str:
    """Of the rebuild whose rows are live; none for rows that no rebuild has replaced."""
    return f"{projection}/generation"


def rebuild(projection: str) -> str:
    """Of the newest rebuild. Only the table that readers open has it."""
    return f"{projection}/rebuild"


def position(projection: str, generation: int, place: TopicPartition) -> str:
    """Of the last settled offset of a partition."""
    return f"{projection}/{generation}/{json.dumps(place)}"


def first_of(epoch: int) -> int:
    """The writer's number with which an epoch begins, before its first batch."""
    return epoch << _BATCH_BITS


def epoch_of(number: int | None) -> int:
    return (number or 0) >> _BATCH_BITS
