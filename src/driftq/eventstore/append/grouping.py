"""Requests taken apart into groups, one per aggregate, and groups packed into transactions."""

from collections.abc import Iterable, Iterator, Sequence

from driftq.eventstore.append.rule import Group
from driftq.eventstore.outcome import Append
from driftq.model import Aggregate

Commands = list[tuple[int, Append]]
"""Each with its place among all that were given."""


def by_aggregate(requests: Sequence[Sequence[Append]]) -> Iterator[tuple[Aggregate, Commands]]:
    """The commands of each request and aggregate, in order of first appearance."""
    index = 0
    for commands in requests:
        if len(commands) == 1:  # As most callers send them.
            yield commands[0].event.aggregate, [(index, commands[0])]
            index += 1
            continue
        groups: dict[Aggregate, Commands] = {}
        for command in commands:
            groups.setdefault(command.event.aggregate, []).append((index, command))
            index += 1
        yield from groups.items()


def batches(groups: Iterable[Group], *, events_max: int) -> Iterator[list[Group]]:
    """Groups that share a transaction. A group is never split: one above the limit has its own."""
    batch: list[Group] = []
    size = 0
    for group in groups:
        if batch and size + len(group) > events_max:
            yield batch
            batch, size = [], 0
        batch.append(group)
        size += len(group)
    if batch:
        yield batch
