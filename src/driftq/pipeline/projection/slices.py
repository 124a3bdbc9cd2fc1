"""A topic's messages up to a pinned end, cut into slices that a rebuild folds one after the other. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from driftq.model import TopicView
from driftq.tables.reader import TableFile


@dataclass(frozen=True, slots=True)
class Slice:
    """About `messages` messages of a topic: from these files, or where there are none from the server."""

    topic: str
    messages: int
    ends: dict[int, int]
    """The offset of each partition at which the slice ends, without it."""
    files: tuple[str, ...] = ()
    starts: dict[int, int] | None = None


def slices_of(view: TopicView, files: Sequence[TableFile], *, messages_max: int) -> Iterator[Slice]:
    """First the messages in files, then the rest, each between `starts` and `ends`."""
    ends = {one.partition: one.next_offset for one in view.partitions}
    sealed = {one.partition: one.first_offset for one in view.partitions}
    left = {one.partition: one.messages for one in view.partitions}
    wanted = [
        file
        for file in files  # Those of a deleted topic of this name are below, until they are removed.
        if file.first_offset < ends.get(file.partition, 0) and file.last_offset >= view.start_offset
    ]
    for group in _groups(wanted, messages_max):
        yield Slice(view.name, sum(file.rows for file in group), ends, tuple(file.name for file in group))
    for file in wanted:
        sealed[file.partition] = min(max(sealed[file.partition], file.last_offset + 1), ends[file.partition])
        left[file.partition] = max(0, left[file.partition] - file.rows)
    yield from _spans(view.name, sealed, ends, sum(left.values()), messages_max)


def _groups(files: Sequence[TableFile], messages_max: int) -> Iterator[list[TableFile]]:
    group: list[TableFile] = []
    for file in files:
        if group and sum(each.rows for each in group) + file.rows > messages_max:
            yield group
            group = []
        group.append(file)
    if group:
        yield group


def _spans(
    topic: str, starts: dict[int, int], ends: dict[int, int], messages: int, messages_max: int
) -> Iterator[Slice]:
    """Even cuts of the offsets: only the server knows exactly how many messages each holds."""
    if all(starts[partition] >= end for partition, end in ends.items()):
        return
    pieces = max(1, -(-messages // messages_max))
    for number in range(pieces):
        first, last = (
            {
                partition: starts[partition] + (end - starts[partition]) * at // pieces
                for partition, end in ends.items()
            }
            for at in (number, number + 1)
        )
        yield Slice(topic, messages // pieces, last, starts=first)
