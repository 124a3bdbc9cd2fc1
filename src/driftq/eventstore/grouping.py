"""Requests taken apart into groups, one per aggregate, and groups packed into transactions."""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from driftq.eventstore.draft import Draft
from driftq.eventstore.outcome import Append
from driftq.model import Aggregate


class Place(NamedTuple):
    """Which event of which request."""

    request: int
    nth: int


class Placed(NamedTuple):
    """A group that is fit to be stored, and where its answers belong."""

    places: list[Place]
    drafts: list[Draft]


def by_aggregate(requests: Sequence[Sequence[Append]]) -> Iterator[tuple[list[Place], list[Append]]]:
    """The groups of each request in order of first appearance."""
    for request, commands in enumerate(requests):
        groups: dict[Aggregate, tuple[list[Place], list[Append]]] = {}
        for nth, command in enumerate(commands):
            places, group = groups.setdefault(command.event.aggregate, ([], []))
            places.append(Place(request, nth))
            group.append(command)
        yield from groups.values()


def batches(groups: Iterable[Placed], *, events_max: int) -> Iterator[list[Placed]]:
    """Groups that share a transaction. A group is never split: one above the limit has its own."""
    batch: list[Placed] = []
    size = 0
    for group in groups:
        if batch and size + len(group.drafts) > events_max:
            yield batch
            batch, size = [], 0
        batch.append(group)
        size += len(group.drafts)
    if batch:
        yield batch
