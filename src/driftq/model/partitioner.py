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
_SHORT = 16
"""In characters."""
_SHORT_KEYS_MAX = 65_536
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
    digests = [_short_keys.get(key) for key in keys]
    if None in digests:
        slots = [slot for slot, digest in enumerate(digests) if digest is None]
        for slot, digest in zip(slots, _digests_of([keys[slot] for slot in slots]), strict=True):
            digests[slot] = digest
            if len(keys[slot]) <= _SHORT:
                _short_keys[keys[slot]] = digest
        if len(_short_keys) > _SHORT_KEYS_MAX:
            _short_keys.clear()  # Those in use come back at once.
    return [(digest or 0) % partitions if key else 0 for key, digest in zip(keys, digests, strict=True)]


_short_keys: dict[str, int] = {}
"""Digests of short keys: they repeat, and a look costs a fifth of hashing them."""


def _digests_of(keys: list[str]) -> list[int]:
    octets = [key.encode() for key in keys]
    by_length: dict[int, list[int]] = {}
    for slot, one in enumerate(octets):
        by_length.setdefault(len(one), []).append(slot)
    found = [0] * len(keys)
    for length, slots in by_length.items():
        mine = [octets[slot] for slot in slots]
        alone = len(slots) < _MANY or length > _LONG
        digests = [fnv1a_32(one) for one in mine] if alone else _digests(mine, length)
        for slot, digest in zip(slots, digests, strict=True):
            found[slot] = digest
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
