"""Cron expressions: which instants they name in a time zone. The calendar is cronsim's, as in Debian's cron.

Five fields are minute, hour, day of month, month and day of week; with six the first is the second. Where
clocks change, an expression whose minute and hour are fixed fires once: at the first of two equal times, and
at the end of the gap if its time is left out. One with `*` in either follows elapsed time.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, tzinfo
from itertools import islice
from zoneinfo import ZoneInfo

from cronsim import CronSim, CronSimError

from driftq.core.schedules.records import NEVER
from driftq.errors import InvalidArgument

CRON_MAX = 200
_TIMEZONE_MAX = 100


def check_cron(cron: str, timezone: str) -> None:
    """Raises InvalidArgument for an expression or a zone that cannot be used."""
    zone = _zone(timezone)
    if len(cron) > CRON_MAX:
        raise InvalidArgument("cron", f"must have at most {CRON_MAX} characters")
    try:
        first = next(CronSim(cron, datetime(2024, 1, 1, tzinfo=zone)), None)
    except (CronSimError, AssertionError, ValueError) as error:
        raise InvalidArgument("cron", f"{cron!r} is not a cron expression: {error}") from None
    if first is None:
        raise InvalidArgument("cron", f"{cron!r} names no time in 50 years")


def _zone(timezone: str) -> tzinfo:
    if timezone == "UTC":
        return UTC
    try:
        if len(timezone) > _TIMEZONE_MAX:
            raise ValueError(timezone)
        return ZoneInfo(timezone)
    except (KeyError, ValueError, OSError):
        problem = f"{timezone[:_TIMEZONE_MAX]!r} is not a known time zone, such as Europe/Berlin"
        raise InvalidArgument("timezone", problem) from None


def fires_after(cron: str, timezone: str, after: int) -> Iterator[int]:
    """The instants after this one, in milliseconds, earliest first."""
    start = datetime.fromtimestamp(after / 1000, _zone(timezone))
    for moment in CronSim(cron, start):
        at = int(moment.timestamp() * 1000)
        if (
            at > after
        ):  # The second of two equal hours begins before the first one's instants, as cronsim counts.
            yield at


def next_fire(cron: str, timezone: str, after: int) -> int:
    """The first instant after this one; NEVER if there is none."""
    return next(fires_after(cron, timezone, after), NEVER)


def fires_between(cron: str, timezone: str, first: int, last: int, *, limit: int) -> list[int]:
    """The newest `limit` instants from `first`, which is one, up to `last`, earliest first."""
    found = [first]
    for at in islice(fires_after(cron, timezone, first), limit):
        if at > last:
            return found
        found.append(at)
    if len(found) <= limit:
        return found
    start = datetime.fromtimestamp(last / 1000 + 1, _zone(timezone))
    newest: list[int] = []
    for moment in CronSim(cron, start, reverse=True):
        at = int(moment.timestamp() * 1000)
        if at <= last:
            newest.append(at)
        if len(newest) == limit:
            break
    return sorted(newest)
