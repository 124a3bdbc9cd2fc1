"""Which idempotency keys are live, as 64-bit fingerprints that point at the message which claimed them.

Fingerprints may collide, so a hit proves nothing: the caller compares the stored message.
Keys expire in the order of their time, in buckets, so that expiry costs only the expired keys.
"""

from array import array
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from hashlib import blake2b

import msgspec

from driftq.core.fingerprints import FingerprintTable

_BUCKETS = 64
_OFFSET_BITS = 40
_OFFSET_MASK = (1 << _OFFSET_BITS) - 1
_encode = msgspec.msgpack.Encoder().encode
_blank = blake2b(digest_size=8)
"""Copied for each fingerprint, which is quicker than creating a new one."""


def fingerprint(*identity: str) -> int:
    """64 bits of an idempotency identity, never 0."""
    state = _blank.copy()
    state.update(_encode(identity))
    return int.from_bytes(state.digest(), "little") or 1


def fingerprints(identities: Iterable[tuple[str, ...]]) -> list[int]:
    """The same for many."""
    new, encode, number = _blank.copy, _encode, int.from_bytes
    prints: list[int] = []
    for identity in identities:
        state = new()
        state.update(encode(identity))
        prints.append(number(state.digest(), "little") or 1)
    return prints


class MessageRef(msgspec.Struct, frozen=True, gc=False):
    """The message that holds a key."""

    topic: int
    offset: int


class KeyTable:
    """The messages that hold live keys, by fingerprint."""

    def __init__(self, *, ttl_ms: int) -> None:
        self._ttl_ms = ttl_ms
        self._width_ms = max(1, ttl_ms // _BUCKETS)
        self._refs = FingerprintTable()
        self._buckets: deque[tuple[int, array[int], array[int]]] = deque()

    def __len__(self) -> int:
        return self._refs.count

    def __iter__(self) -> Iterator[int]:
        """The live fingerprints."""
        return iter(dict.fromkeys(print_ for print_, _ in self._refs))

    def has_none(self, prints: list[int]) -> bool:
        """Whether all of these are new."""
        return not self._refs.has_any(prints)

    def find(self, print_: int) -> list[MessageRef]:
        """The messages that may hold the key of this fingerprint."""
        return [
            MessageRef(topic=packed >> _OFFSET_BITS, offset=packed & _OFFSET_MASK)
            for packed in self._refs.find(print_)
        ]

    def add(self, print_: int, *, topic: int, offset: int, at: int) -> None:
        self.add_all([print_], [offset], topic=topic, at=at)

    def add_all(self, prints: Sequence[int], offsets: Sequence[int], *, topic: int, at: int) -> None:
        """Claim these for the messages at the offsets."""
        base = topic << _OFFSET_BITS
        if type(offsets) is range and offsets.step == 1:
            refs = array("Q", range(base + offsets.start, base + offsets.stop))
        else:
            refs = array("Q", [base | offset for offset in offsets])
        self._refs.add_all(prints, refs)
        bucket_end = at - at % self._width_ms + self._width_ms
        if not self._buckets or self._buckets[-1][0] < bucket_end:
            self._buckets.append((bucket_end, array("Q"), array("Q")))
        _, bucket_prints, bucket_refs = self._buckets[-1]
        bucket_prints.extend(prints)
        bucket_refs.extend(refs)

    def dump(self, name: str) -> dict[str, bytes]:
        """The whole table as raw arrays under this name."""
        return {
            f"{name}.ends": array("Q", [end for end, _, _ in self._buckets]).tobytes(),
            f"{name}.sizes": array("Q", [len(prints) for _, prints, _ in self._buckets]).tobytes(),
            f"{name}.prints": b"".join(prints.tobytes() for _, prints, _ in self._buckets),
            f"{name}.claims": b"".join(refs.tobytes() for _, _, refs in self._buckets),
            **self._refs.dump(name),
        }

    def load(self, parts: Mapping[str, memoryview], name: str) -> None:
        """Load the result of `dump` into an empty table."""
        if f"{name}.ends" not in parts:
            return
        prints, refs = parts[f"{name}.prints"], parts[f"{name}.claims"]
        start = 0
        for end, size in zip(parts[f"{name}.ends"].cast("Q"), parts[f"{name}.sizes"].cast("Q"), strict=True):
            stop = start + 8 * size
            bucket = (end, array("Q"), array("Q"))
            bucket[1].frombytes(prints[start:stop])  # As bytes: number by number takes ten times as long.
            bucket[2].frombytes(refs[start:stop])
            self._buckets.append(bucket)
            start = stop
        if not self._refs.load(parts, name):
            for _, bucket_prints, bucket_refs in self._buckets:
                self._refs.add_all(bucket_prints, bucket_refs)

    def remove(self, print_: int, *, topic: int, offset: int) -> None:
        """Drop one key before it expires."""
        self._refs.remove(print_, topic << _OFFSET_BITS | offset)

    def expire(self, now: int) -> None:
        """Drop keys older than their time to live."""
        while self._buckets and self._buckets[0][0] + self._ttl_ms <= now:
            _, prints, refs = self._buckets.popleft()
            for print_, packed in zip(prints, refs, strict=True):
                self._refs.remove(print_, packed)
