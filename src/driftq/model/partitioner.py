"""Which partition a message lands in: a function of its key alone, which never changes."""

from functools import lru_cache

_OFFSET_BASIS = 0x811C9DC5
_PRIME = 0x01000193
_MASK = 0xFFFFFFFF


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
