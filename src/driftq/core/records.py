"""The records of the log: facts, in batches, and their bytes.

A record is `kind u8 · head length u32 · blob length u32 · head · blob`. The head is a MessagePack array of
the fields below, in order; fields may be added at the end. Only `MessagesStored` has a blob: the messages'
stored forms one behind the other. Arrays of integers are little-endian bytes.

Inside a partition messages are named by ordinal (the first ever stored is 0, then one more each), because
offsets are counted per topic and have holes in a partition.
"""

import struct
import sys
from array import array
from collections.abc import Iterator

import msgspec

from driftq.model import TopicOptions

_PREFIX = struct.Struct("<BII")
PREFIX_BYTES = _PREFIX.size

if sys.byteorder != "little":  # pragma: no cover
    raise ImportError("the log's arrays are little-endian, and so must be this machine")


class Record(msgspec.Struct, array_like=True, gc=False):
    """A fact with its time in milliseconds."""

    at: int


class TopicCreated(Record):
    topic: int
    name: str
    partitions: int
    options: TopicOptions = TopicOptions()


class MessagesStored(Record):
    """Messages of one topic with consecutive offsets."""

    topic: int
    first_offset: int
    partition: int
    """The partition of all of them, or -1 when `partitions` names each one's."""
    partitions: bytes
    lengths: bytes
    sizes: bytes
    flags: bytes = b""
    fingerprints: bytes = b""


class GroupCreated(Record):
    topic: int
    group: int
    name: str
    starts: list[int]


class FreshBlock(msgspec.Struct, array_like=True, gc=False):
    """First deliveries to one owner: every `step`-th ordinal of a run."""

    owner: str
    lease_ms: int
    start: int
    stop: int
    step: int


class AgainBlock(msgspec.Struct, array_like=True, gc=False):
    """Repeated deliveries to one owner."""

    owner: str
    lease_ms: int
    ordinals: list[int]


class MessagesDelivered(Record):
    group: int
    partition: int
    upto: int
    """The ordinal behind the last one that was ever delivered."""
    fresh: list[FreshBlock]
    again: list[AgainBlock]


class MessagesSettled(Record):
    group: int
    partition: int
    base: int
    deltas: bytes
    """Settled ordinals, each as its distance from `base`."""


class EndedDelivery(msgspec.Struct, array_like=True, gc=False):
    ordinal: int
    due_at: int
    error: str


class DeliveriesEnded(Record):
    """Deliveries over without a settlement: nacked, expired or given back."""

    group: int
    partition: int
    cause: int
    ended: list[EndedDelivery]


class LeaseExtended(Record):
    group: int
    partition: int
    ordinal: int
    lease_ms: int


class ReaderReported(Record):
    """A reader outside any group has passed these ordinals: (partition, next ordinal)."""

    topic: int
    reader: str
    positions: list[tuple[int, int]]


class Trim(msgspec.Struct, array_like=True, gc=False):
    """One partition from now on begins with ordinal `first`; `lost` of those dropped were not settled."""

    partition: int
    first: int
    lost: int


class PartitionsTrimmed(Record):
    """The oldest messages of some partitions are dropped."""

    topic: int
    trims: list[Trim]


class TopicDeleted(Record):
    topic: int


class GroupReset(Record):
    """A group begins anew, at these ordinals."""

    group: int
    starts: list[int]


class GroupDeleted(Record):
    group: int


class SegmentRolled(Record):
    """Nothing but a first record for a new segment, so that the one before it can be sealed."""


CAUSE_NACKED = 1
CAUSE_EXPIRED = 2
CAUSE_RELEASED = 3

_KINDS: dict[int, type[Record]] = {
    1: TopicCreated,
    2: MessagesStored,
    3: GroupCreated,
    4: MessagesDelivered,
    5: MessagesSettled,
    6: DeliveriesEnded,
    7: LeaseExtended,
    8: ReaderReported,
    20: PartitionsTrimmed,
    21: TopicDeleted,
    22: GroupReset,
    23: GroupDeleted,
    24: SegmentRolled,
}
_KIND_OF = {record: kind for kind, record in _KINDS.items()}
_DECODERS = {kind: msgspec.msgpack.Decoder(record) for kind, record in _KINDS.items()}
_encode = msgspec.msgpack.Encoder().encode


def encode_record(record: Record, *, blob_bytes: int = 0) -> bytes:
    """Prefix and head; the blob follows them."""
    head = _encode(record)
    return _PREFIX.pack(_KIND_OF[type(record)], len(head), blob_bytes) + head


def decode_records(payload: memoryview) -> Iterator[tuple[Record, int]]:
    """Each record of a frame with the place of its blob in the payload."""
    place, end = 0, len(payload)
    while place < end:
        kind, head_bytes, blob_bytes = _PREFIX.unpack_from(payload, place)
        head_at = place + PREFIX_BYTES
        blob_at = head_at + head_bytes
        yield _DECODERS[kind].decode(payload[head_at:blob_at]), blob_at
        place = blob_at + blob_bytes


def unpack_array(typecode: str, octets: bytes) -> "array[int]":
    """Integers from their bytes."""
    numbers: array[int] = array(typecode)
    numbers.frombytes(octets)
    return numbers
