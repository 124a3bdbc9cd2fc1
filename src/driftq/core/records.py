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
from collections.abc import Iterator, Sequence

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
    start_offset: int = 0
    """Of its first message: after those of an earlier topic of this name."""
    tenant: str = ""
    """Who owns it; empty: nobody."""


class DeliveryTerms(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """How a message may be delivered, beyond the defaults. Shared by all messages with the same terms."""

    max_attempts: int = 0
    """0 is no limit."""
    backoff_ms: int = -1
    """-1 is the default delay."""
    max_backoff_ms: int = 30_000
    group: int = 0
    """The only group that gets it; 0 is every group."""


ORDINARY = DeliveryTerms()


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
    """For each message that of its idempotency key, in a dead-letter topic of its id; 0 is none."""
    terms: list[DeliveryTerms] = []
    terms_of: bytes = b""
    """For each message its index in `terms`, from 1; 0 is the default."""
    deadlines: bytes = b""
    """For each message its deadline in milliseconds; 0 is none."""
    delays: bytes = b""
    """For each message the instant before which no group gets it, in milliseconds; 0 is none."""


class DelaysEnded(Record):
    """The instant of these delayed messages has come: groups may get them."""

    topic: int
    partition: int
    ordinals: bytes
    """In the order of their instants."""


class GroupCreated(Record):
    topic: int
    group: int
    name: str
    starts: list[int]
    attempt_base: int = 0
    """Its attempts are numbered above this: a deleted group of this name used those up to it."""


class FreshBlock(msgspec.Struct, array_like=True, gc=False):
    """First deliveries to one owner: every `step`-th ordinal of a run."""

    owner: str
    lease_ms: int
    start: int
    stop: int
    step: int
    attempt: int = 1
    """The attempt of these deliveries: above 1 where the group was reset or recreated."""


class RedeliveredBlock(msgspec.Struct, array_like=True, gc=False):
    """Repeated deliveries to one owner."""

    owner: str
    lease_ms: int
    ordinals: list[int]


class MessagesDelivered(Record):
    group: int
    partition: int
    upto: int
    """The ordinal after the last one that was ever delivered."""
    fresh: list[FreshBlock]
    redelivered: list[RedeliveredBlock]


class MessagesSettled(Record):
    group: int
    partition: int
    base: int
    deltas: bytes
    """Settled ordinals, each as its distance from `base`."""
    cause: int = 1


class EndedDelivery(msgspec.Struct, array_like=True, gc=False):
    ordinal: int
    due_at: int
    error: str


class DeliveriesEnded(Record):
    """Deliveries that ended without a settlement: nacked, expired or released."""

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
    """A group is reset to these ordinals."""

    group: int
    starts: list[int]
    attempts: list[int] = []
    """For each partition the highest attempt used so far: later ones are numbered above it."""


class GroupDeleted(Record):
    group: int


class SegmentRolled(Record):
    """Only the first record of a new segment, so that the one before it can be sealed."""


CRASH_UNDECLARED = 0
CRASH_IDEMPOTENT = 1
"""A crash between effect and commit repeats the effect."""
CRASH_UNKNOWN = 2
"""After such a crash the effect does not begin again until it is resolved."""


class EffectTerms(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """What the owner of an effect declared when it began."""

    crash: int = CRASH_UNDECLARED
    ttl_ms: int = 0
    """How long its result lasts; 0 is the server's default."""
    parent: str = ""
    """Of a step: the step that it is part of."""


NO_TERMS = EffectTerms()


class EffectBegun(Record):
    identity: tuple[str, str, str, str]
    owner: str
    lease_ms: int
    token: int
    topic: int = 0
    """The requested topic, by its id; 0 when no topic had that name."""
    terms: EffectTerms = NO_TERMS


class EffectFailed(Record):
    identity: tuple[str, str, str, str]
    error: str
    topic: int = 0


class EffectCommitted(Record):
    """The effect is done; its result is a message in the same frame, just before this record."""

    identity: tuple[str, str, str, str]
    topic: int = 0
    stored_in: int = 0
    """The internal topic of that message, of a step; 0 elsewhere."""


class DeadLettersRedriven(Record):
    """Dead letters that were redriven, and by whom."""

    topic: int
    offsets: list[int]
    by: str


class DeadLettersPurged(Record):
    """Dead letters that were purged."""

    topic: int
    offsets: list[int]


class WriterOpened(Record):
    """From now on a writer's appends need at least this epoch: older runs are fenced."""

    topic: int
    writer: str
    epoch: int


class LaneMoved(Record):
    """A writer's messages of one lane are stored up to this position, by a run of this epoch.

    It is in one frame with the messages, so that neither is ever there without the other.
    """

    topic: int
    writer: str
    epoch: int
    lane: int
    position: int


SETTLED_BY_ACK = 1
SETTLED_DEAD = 2
"""Dead-lettered: it is in the dead-letter topic."""
SETTLED_SKIPPED = 3
"""Never meant for this group."""

CAUSE_NACKED = 1
CAUSE_EXPIRED = 2
CAUSE_RELEASED = 3
CAUSE_UNSTARTED = 4
"""Returned before a handler began it: this delivery does not count as a try."""

_KINDS: dict[int, type[Record]] = {
    1: TopicCreated,
    2: MessagesStored,
    3: GroupCreated,
    4: MessagesDelivered,
    5: MessagesSettled,
    6: DeliveriesEnded,
    7: LeaseExtended,
    8: ReaderReported,
    9: EffectBegun,
    10: EffectFailed,
    11: EffectCommitted,
    12: DeadLettersRedriven,
    13: DeadLettersPurged,
    14: DelaysEnded,
    20: PartitionsTrimmed,
    21: TopicDeleted,
    22: GroupReset,
    23: GroupDeleted,
    24: SegmentRolled,
    25: WriterOpened,
    26: LaneMoved,
}
_KIND_OF = {record: kind for kind, record in _KINDS.items()}
_DECODERS = {kind: msgspec.msgpack.Decoder(record) for kind, record in _KINDS.items()}
_encode = msgspec.msgpack.Encoder().encode


def register(kind: int, record: type[Record]) -> None:
    """Register a kind of record under its number in the log."""
    _KINDS[kind] = record
    _KIND_OF[record] = kind
    _DECODERS[kind] = msgspec.msgpack.Decoder(record)


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


_RUN = array("I", range(1_000)).tobytes()


def run_of(count: int) -> bytes:
    """0, 1, 2 … as bytes: the deltas of messages that follow one another."""
    return _RUN[: 4 * count] if count <= 1_000 else array("I", range(count)).tobytes()


def settled_between(
    group: int, partition: int, ordinals: Sequence[int], *, low: int, high: int, cause: int, now: int
) -> MessagesSettled:
    """These messages are settled, none twice; `low` and `high` are the lowest and the highest of them."""
    if high - low == len(ordinals) - 1:
        deltas = run_of(len(ordinals))
    else:
        deltas = array("I", [ordinal - low for ordinal in ordinals]).tobytes()
    return MessagesSettled(at=now, group=group, partition=partition, base=low, deltas=deltas, cause=cause)


def unpack_array(typecode: str, octets: bytes) -> "array[int]":
    """Integers from their bytes."""
    numbers: array[int] = array(typecode)
    numbers.frombytes(octets)
    return numbers
