"""Which idempotency keys are live, as 64-bit fingerprints that point at the message which claimed them.

A fingerprint may collide, so a hit is a question, not an answer: the caller compares the stored message.
Keys leave in the order of their time, in buckets, so that expiry costs what expires.
"""

from array import array
from collections import deque
from collections.abc import Iterator
from hashlib import blake2b

import msgspec

_BUCKETS = 64
_encode = msgspec.msgpack.Encoder().encode


def fingerprint(tenant_id: str, topic: str, idempotency_key: str) -> int:
    """64 bits of an idempotency identity, never 0."""
    digest = blake2b(_encode((tenant_id, topic, idempotency_key)), digest_size=8).digest()
    return int.from_bytes(digest, "little") or 1


class Claim(msgspec.Struct, frozen=True, gc=False):
    """The message that holds a key."""

    topic: int
    partition: int
    ordinal: int


def _pack(topic: int, partition: int, ordinal: int) -> int:
    return ordinal << 32 | topic << 12 | partition


class KeyTable:
    """Live claims by fingerprint."""

    def __init__(self, *, ttl_ms: int) -> None:
        self._ttl_ms = ttl_ms
        self._width_ms = max(1, ttl_ms // _BUCKETS)
        self._claims: dict[int, int] = {}
        self._collided: dict[int, list[int]] = {}
        self._buckets: deque[tuple[int, array[int]]] = deque()

    def __len__(self) -> int:
        return len(self._claims) + sum(map(len, self._collided.values()))

    def __iter__(self) -> Iterator[int]:
        """The live fingerprints, each once."""
        return iter(self._claims)

    def has_none(self, prints: list[int]) -> bool:
        """Whether all of these are new; costs next to nothing for many."""
        return self._claims.keys().isdisjoint(prints)

    def find(self, print_: int) -> list[Claim]:
        """The messages that may hold the key of this fingerprint."""
        first = self._claims.get(print_)
        if first is None:
            return []
        return [_unpack(packed) for packed in (first, *self._collided.get(print_, ()))]

    def add(self, print_: int, *, topic: int, partition: int, ordinal: int, at: int) -> None:
        packed = _pack(topic, partition, ordinal)
        if print_ in self._claims:
            self._collided.setdefault(print_, []).append(packed)
        else:
            self._claims[print_] = packed
        bucket_end = at - at % self._width_ms + self._width_ms
        if not self._buckets or self._buckets[-1][0] < bucket_end:
            self._buckets.append((bucket_end, array("Q")))
        self._buckets[-1][1].append(print_)

    def expire(self, now: int) -> None:
        """Forget keys older than their time to live."""
        while self._buckets and self._buckets[0][0] + self._ttl_ms <= now:
            _, prints = self._buckets.popleft()
            for print_ in prints:
                self._forget_oldest(print_)

    def _forget_oldest(self, print_: int) -> None:
        later = self._collided.get(print_)
        if not later:
            del self._claims[print_]
            return
        self._claims[print_] = later.pop(0)
        if not later:
            del self._collided[print_]


def _unpack(packed: int) -> Claim:
    return Claim(topic=(packed >> 12) & 0xFFFFF, partition=packed & 0xFFF, ordinal=packed >> 32)
