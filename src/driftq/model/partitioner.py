"""Which partition a message lands in: a function of its key alone, which never changes.

The hash is 32-bit FNV-1a of the key's UTF-8 bytes. It is computed in C, so no digest is kept: to look a key
up would take as long.
"""

from collections.abc import Sequence

from fnv_hash_fast import fnv1a_32

__all__ = ["fnv1a_32", "partition_of", "partitions_of"]


def partition_of(key: str, *, partitions: int) -> int:
    """The partition of a key among `partitions`; an empty key goes to partition 0."""
    if not key or partitions == 1:
        return 0
    return fnv1a_32(key.encode()) % partitions


def partitions_of(keys: Sequence[str], *, partitions: int) -> list[int]:
    """The same for many."""
    if partitions == 1:
        return [0] * len(keys)
    digest = fnv1a_32
    return [digest(key.encode()) % partitions if key else 0 for key in keys]
