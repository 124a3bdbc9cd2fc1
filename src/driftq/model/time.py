"""Instants: integers since 1970 UTC inside, RFC 3339 text and `datetime` at the edges.

The broker counts milliseconds, the event store microseconds. All arithmetic is on integers, so that no
instant loses its last digit in a float.
"""

import datetime as dt
from functools import lru_cache

import msgspec

_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_MICROSECOND = dt.timedelta(microseconds=1)


def rfc3339(at_ms: int) -> str:
    """The instant in UTC with three digits after the second."""
    return utc(at_ms * 1000).replace(tzinfo=None).isoformat(timespec="milliseconds") + "Z"


def rfc3339_us(at_us: int) -> str:
    """The instant in UTC, always with six digits after the second, so that texts sort as instants do."""
    second, fraction = divmod(at_us, 1_000_000)
    return f"{_second_text(second)}.{fraction:06d}Z"


@lru_cache(maxsize=1024)
def _second_text(second: int) -> str:
    """Many events happen in the same second, and this is most of the work."""
    return utc(second * 1_000_000).replace(tzinfo=None).isoformat(timespec="seconds")


def parse_rfc3339(text: str) -> int:
    """Milliseconds since 1970 UTC; raises ValueError for anything but an RFC 3339 time with a zone."""
    return microseconds(msgspec.convert(text, dt.datetime)) // 1000


def microseconds(instant: dt.datetime) -> int:
    """Microseconds since 1970 UTC; raises ValueError for an instant without a time zone."""
    if instant.tzinfo is None:
        raise ValueError("an instant needs a time zone")
    return (instant - _EPOCH) // _MICROSECOND


def utc(at_us: int) -> dt.datetime:
    """The instant this many microseconds after 1970 UTC."""
    return _EPOCH + at_us * _MICROSECOND
