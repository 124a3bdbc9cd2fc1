"""Requests taken apart into groups, one per aggregate, and groups packed into transactions."""

from collections.abc import Iterable, Iterator, Sequence

from driftq.eventstore.draft import Place
from driftq.eventstore.outcome import Append
from driftq.eventstore.rule import Group
from driftq.model import Aggregate


def by_aggregate(requests: Sequence[Sequence[Append]]) -> Iterator[dict[Place, Append]]:
    """The commands of each request and aggregate, in order of first appearance."""
    for request, commands in enumerate(requests):
        groups: dict[Aggregate, dict[Place, Append]] = {}
        for nth, command in enumerate(commands):
            groups.setdefault(command.event.aggregate, {})[Place(request, nth)] = command
        yield from groups.values()


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
