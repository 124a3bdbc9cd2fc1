"""Which dead letters a topic has, found in the index alone: no message is read or decoded for it.

Offsets are numbered through a topic, so the partitions are merged by offset. A call looks at a bounded number
of dead letters: it runs in a turn, and every other request waits meanwhile.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import NamedTuple

from driftq.core.index import PartitionIndex
from driftq.core.state import State, Topic
from driftq.errors import TopicNotFound
from driftq.model.topic import DEAD_LETTER_PREFIX
from driftq.server.walk import Walk, in_order

LOOK_MAX = 2_048
"""Dead letters that one call looks at, purged ones among them."""


class DeadLetterRef(NamedTuple):
    """The location of a dead letter, and when it was redriven. Refs sort by offset."""

    offset: int
    partition: int
    ordinal: int
    redriven_at: int | None = None


class DeadLetterPage(NamedTuple):
    """Some dead letters by offset, and the offset after which to look for more; None when there are none."""

    refs: list[DeadLetterRef]
    more_after: int | None


def dlq_topic_of(state: State, name: str) -> Topic:
    """The dead-letter topic of a topic; TopicNotFound when nothing was ever dead-lettered there."""
    found = state.topics.get(DEAD_LETTER_PREFIX + name)
    if found is None:
        raise TopicNotFound(DEAD_LETTER_PREFIX + name)
    return found


def walk_dlq_topics(state: State, *, shown: Callable[[str], bool]) -> Walk[list[tuple[Topic, int]]]:
    """The dead-letter topics that are to be shown, by name, each with the number of its dead letters."""
    found: list[tuple[Topic, int]] = []
    for name in (yield from in_order(state.topics, shown)):
        topic = state.topics.get(name)
        if topic is not None:  # Deleted since its name was read.
            found.append((topic, count_dead_letters(topic)))
            yield len(topic.partitions)
    return found


def dead_letter_page(topic: Topic, *, after: int = -1, limit: int = LOOK_MAX) -> DeadLetterPage:
    """At most `limit` dead letters after an offset that are not purged."""
    parts = [_refs(number, part.index, after) for number, part in enumerate(topic.partitions)]
    refs: list[DeadLetterRef] = []
    looked = 0
    for ref in islice(heapq.merge(*parts), LOOK_MAX):
        looked += 1
        after = ref.offset
        if ref.offset not in topic.purged:
            refs.append(_with_redrive(topic, ref))
            if len(refs) == limit:
                return DeadLetterPage(refs, after)
    return DeadLetterPage(refs, after if looked == LOOK_MAX else None)


def handlers_page(state: State, topic: Topic, *, after: int = -1, limit: int = LOOK_MAX) -> DeadLetterPage:
    """The same for dead letters of handlers alone."""
    limit = min(limit, LOOK_MAX)
    offsets = state.dead_letter_ids.offsets(topic.id, after=after, limit=limit)
    return DeadLetterPage(named_dead_letters(topic, offsets), offsets[-1] if len(offsets) == limit else None)


def _refs(number: int, index: PartitionIndex, after: int) -> Iterator[DeadLetterRef]:
    for chunk, slots in index.runs(index.first_ordinal_from(after + 1), index.end):
        for slot in slots:
            yield DeadLetterRef(chunk.offsets[slot], number, chunk.first + slot)


def _with_redrive(topic: Topic, ref: DeadLetterRef) -> DeadLetterRef:
    sent = topic.redriven.get(ref.offset)
    return ref._replace(redriven_at=sent[0]) if sent is not None else ref


def named_dead_letters(topic: Topic, offsets: Iterable[int]) -> list[DeadLetterRef]:
    """Those of these dead letters that exist and are not purged."""
    refs: list[DeadLetterRef] = []
    for offset in sorted(set(offsets)):
        located = topic.locate(offset) if offset not in topic.purged else None
        if located is not None:
            refs.append(_with_redrive(topic, DeadLetterRef(offset, *located)))
    return refs


def count_dead_letters(topic: Topic) -> int:
    return sum(part.index.end - part.index.first for part in topic.partitions) - len(topic.purged)
