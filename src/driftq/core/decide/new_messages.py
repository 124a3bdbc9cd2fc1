"""New messages as columns: one list for each of their facts, and no object for a message.

This is how a turn stores messages that need nothing but space: they have no target of their own, no instant
and no terms, and their keys are known to be new. Where a partition is nearly full the decision is None, and
each message is judged alone (`produce.py`).
"""

from array import array
from collections.abc import Sequence
from itertools import pairwise

import msgspec

from driftq.core.index import FLAG_KEYED
from driftq.core.records import DeliveryTerms, MessagesStored
from driftq.core.state import State, Topic
from driftq.model.partitioner import partitions_of

RECORD_MESSAGES_MAX = 1_000
RECORD_BYTES_MAX = 1 << 20


class NewMessages(msgspec.Struct):
    """Messages of one topic, in their order."""

    keys: list[str]
    sizes: list[int]
    """Key and value in UTF-8, which is what limits count."""
    entries: list[bytes]
    """The stored forms."""
    fingerprints: list[int]
    """Of the idempotency keys, 0 for none; empty when no message has one."""


class NewRun(msgspec.Struct):
    """Records with the messages' stored forms, and where the messages land: consecutive offsets."""

    records: list[tuple[MessagesStored, list[bytes]]]
    partitions: list[int]
    first_offset: int


def decide_new(state: State, topic: Topic, new: NewMessages, *, now: int) -> NewRun | None:
    """Decide all of a topic's messages at once; None when they do not all fit easily.

    The caller has checked that no key among them is live or occurs twice, and that the table takes them all.
    """
    partitions = room_for_all(state, topic, new.keys, sum(new.sizes))
    if partitions is None:
        return None
    prints = new.fingerprints
    flags = bytes([FLAG_KEYED if print_ else 0 for print_ in prints]) if prints else b""
    records = stored_records(
        topic, partitions, new.sizes, new.entries, flags=flags, fingerprints=prints, now=now
    )
    return NewRun(records, partitions, topic.next_offset)


def room_for_all(state: State, topic: Topic, keys: Sequence[str], size_bytes: int) -> list[int] | None:
    """The partitions of messages that all fit easily; None when each must be checked alone."""
    count = len(topic.partitions)
    partitions = partitions_of(keys, partitions=count) if count > 1 else [0] * len(keys)
    limits = state.limits
    messages_max = limits.partition_messages_max - len(keys)
    bytes_max = limits.partition_bytes_max - size_bytes
    for number in set(partitions) if count > 1 else (0,):
        part = topic.partitions[number]
        if part.pressure > messages_max or part.pressure_bytes > bytes_max:
            return None
    return partitions


def stored_records(
    topic: Topic,
    partitions: list[int],
    sizes: list[int],
    entries: list[bytes],
    *,
    now: int,
    flags: bytes = b"",
    fingerprints: Sequence[int] = (),
    terms: Sequence[DeliveryTerms | None] = (),
    deadlines: Sequence[int] = (),
    delays: Sequence[int] = (),
) -> list[tuple[MessagesStored, list[bytes]]]:
    """Accepted messages as records of bounded size; a column that is empty says nothing of any message."""
    lengths = array("I", map(len, entries))
    if not (terms or deadlines or delays) and 0 < len(lengths) <= RECORD_MESSAGES_MAX:
        if sum(lengths) <= RECORD_BYTES_MAX:  # Most often: one record, and no instants or terms.
            alone = partitions[0] if partitions.count(partitions[0]) == len(partitions) else -1
            record = MessagesStored(
                at=now,
                topic=topic.id,
                first_offset=topic.next_offset,
                partition=alone,
                partitions=b"" if alone >= 0 else array("H", partitions).tobytes(),
                lengths=lengths.tobytes(),
                sizes=array("I", sizes).tobytes(),
                flags=flags if any(flags) else b"",
                fingerprints=array("Q", fingerprints).tobytes() if any(fingerprints) else b"",
            )
            return [(record, entries)]
    records: list[tuple[MessagesStored, list[bytes]]] = []
    for start, stop in pairwise(_cuts(lengths)):
        numbers = partitions[start:stop]
        alone = numbers[0] if len(topic.partitions) == 1 or numbers.count(numbers[0]) == len(numbers) else -1
        marks, prints = flags[start:stop], fingerprints[start:stop]
        ends, waits = deadlines[start:stop], delays[start:stop]
        its_terms = terms[start:stop]
        numbered = _numbered(its_terms) if its_terms else {}
        record = MessagesStored(
            at=now,
            topic=topic.id,
            first_offset=topic.next_offset + start,
            partition=alone,
            partitions=b"" if alone >= 0 else array("H", numbers).tobytes(),
            lengths=lengths[start:stop].tobytes(),
            sizes=array("I", sizes[start:stop]).tobytes(),
            flags=marks if any(marks) else b"",
            fingerprints=array("Q", prints).tobytes() if any(prints) else b"",
            terms=list(numbered),
            terms_of=array("H", [numbered[one] if one else 0 for one in its_terms]).tobytes()
            if numbered
            else b"",
            deadlines=array("Q", ends).tobytes() if any(ends) else b"",
            delays=array("Q", waits).tobytes() if any(waits) else b"",
        )
        records.append((record, entries[start:stop]))
    return records


def _cuts(lengths: "array[int]") -> list[int]:
    """Where records begin and end; empty for no messages."""
    cuts = [0] if lengths else []
    if len(lengths) > RECORD_MESSAGES_MAX or sum(lengths) > RECORD_BYTES_MAX:
        size = 0
        for slot, length in enumerate(lengths):
            size += length
            if slot - cuts[-1] == RECORD_MESSAGES_MAX or (size > RECORD_BYTES_MAX and slot > cuts[-1]):
                cuts.append(slot)
                size = length
    if lengths:
        cuts.append(len(lengths))
    return cuts


def _numbered(terms: Sequence[DeliveryTerms | None]) -> dict[DeliveryTerms, int]:
    """The different terms among them, numbered from 1."""
    numbered: dict[DeliveryTerms, int] = {}
    for one in terms:
        if one is not None:
            numbered.setdefault(one, len(numbered) + 1)
    return numbered
