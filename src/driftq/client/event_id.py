"""Ids for events without an id of their own."""

import secrets
import time
from uuid import UUID

_VERSION_7 = 7 << 76
_VARIANT = 2 << 62
_RANDOM_A = 0xFFF << 64
_RANDOM_B = (1 << 62) - 1


def new_event_id() -> str:
    """A UUID of version 7: milliseconds since 1970, then random bits.

    Ids that begin with their time are neighbours in an index, so a database writes one page for many of them;
    random ones cost a page each. Prefer an id derived from the cause of the event where there is one: a
    repeated cause then repeats the id.
    """
    milliseconds = time.time_ns() // 1_000_000
    chance = secrets.randbits(76)
    bits = milliseconds << 80 | _VERSION_7 | (chance & _RANDOM_A) | _VARIANT | (chance & _RANDOM_B)
    return str(UUID(int=bits))
