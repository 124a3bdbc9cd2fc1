"""Which partition a message lands in: a function of its key alone, which never changes.

The hash is 32-bit FNV-1a of the key's UTF-8 bytes. Many keys of one length are hashed together in one large
integer: each has 64 bits of it, and a step does for all of them what it does for one. A lane never runs over
into the next, because a digest has 32 bits and the prime has 25.
"""

from array import array
from collections.abc import Sequence
from functools import lru_cache

_OFFSET_BASIS = 0x811C9DC5
_PRIME = 0x01000193
_MASK = 0xFFFFFFFF
_MANY = 8
"""From this many keys of one length on they are hashed together."""
_LONG = 256
"""In bytes: longer keys are hashed alone, so that few of them do not make large integers."""


def fnv1a_32(octets: bytes) -> int:
    """32-bit FNV-1a."""
    digest = _OFFSET_BASIS
    for octet in octets:
        digest = ((digest ^ octet) * _PRIME) & _MASK
    return digest


@lru_cache(maxsize=65_536)
def _digest(key: str) -> int:
    return fnv1a_32(key.encode())


def partition_of(key: str, *, partitions: int) -> int:
    """The partition of a key among `partitions`; an empty key goes to partition 0."""
    if not key or partitions == 1:
        return 0
    return _digest(key) % partitions


def partitions_of(keys: Sequence[str], *, partitions: int) -> list[int]:
    """The same for many."""
    if partitions == 1:
        return [0] * len(keys)
    if len(keys) < _MANY:
        return [_digest(key) % partitions if key else 0 for key in keys]
    octets = [key.encode() for key in keys]
    lengths = list(map(len, octets))
    found = [0] * len(keys)
    for length in set(lengths):
        if lengths.count(length) == len(lengths):
            slots: Sequence[int] = range(len(keys))
        else:
            slots = [slot for slot, other in enumerate(lengths) if other == length]
        if len(slots) < _MANY or length > _LONG:
            digests: Sequence[int] = [_digest(keys[slot]) for slot in slots]
        else:
            digests = _digests([octets[slot] for slot in slots], length)
        if length:
            for slot, digest in zip(slots, digests, strict=True):
                found[slot] = digest % partitions
    return found


def _digests(octets: list[bytes], length: int) -> Sequence[int]:
    """The digests of strings that all have this length."""
    count = len(octets)
    lane, low = _lanes(count)
    digests = lane * _OFFSET_BASIS
    mask = lane * _MASK
    width = -(-length // 8)
    padded = octets if length == 8 * width else [one.ljust(8 * width, b"\0") for one in octets]
    words = array("Q", b"".join(padded))
    for start in range(width):
        word = int.from_bytes(words[start::width].tobytes(), "little")
        for _ in range(min(8, length - 8 * start)):
            digests = (digests ^ (word & low)) * _PRIME & mask
            word >>= 8
    return array("Q", digests.to_bytes(8 * count, "little"))


@lru_cache(maxsize=64)
def _lanes(count: int) -> tuple[int, int]:
    """1 in each lane, and the lowest 8 bits of each."""
    lane = int.from_bytes(b"\1\0\0\0\0\0\0\0" * count, "little")
    return lane, lane * 0xFF
