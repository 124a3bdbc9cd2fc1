"""Instants as they are stored: microseconds since 1970 UTC."""

import datetime as dt

from driftq.errors import InvalidArgument

_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_MICROSECOND = dt.timedelta(microseconds=1)


def microseconds(instant: dt.datetime) -> int:
    """Microseconds since 1970 UTC; raises InvalidArgument for an instant without a zone."""
    if instant.tzinfo is None:
        raise InvalidArgument("occurred_at", "needs a time zone")
    try:
        return (instant.astimezone(dt.UTC) - _EPOCH) // _MICROSECOND
    except OverflowError:
        raise InvalidArgument("occurred_at", "is outside the years 1 to 9999") from None


def instant(since_epoch_us: int) -> dt.datetime:
    return _EPOCH + since_epoch_us * _MICROSECOND
