"""Schedules as named byte strings and back."""

from collections.abc import Mapping

import msgspec

from driftq.core.schedules.records import ScheduleTerms
from driftq.core.schedules.table import Schedule, ScheduleTable

_encode = msgspec.msgpack.Encoder().encode


class _Schedule(msgspec.Struct, array_like=True):
    terms: ScheduleTerms
    created_at: int
    next_at: int
    last_at: int
    last_job: int
    paused: bool
    fired: int


_schedules = msgspec.msgpack.Decoder(list[_Schedule])
_removed = msgspec.msgpack.Decoder(list[tuple[str, int, int]])


def dump_schedules(table: ScheduleTable, *, now: int) -> dict[str, bytes]:
    """Nothing where there has never been a schedule."""
    removed = table.removed.dump(now=now)
    if not table.schedules and not removed:
        return {}
    kept = [
        _Schedule(one.terms, one.created_at, one.next_at, one.last_at, one.last_job, one.paused, one.fired)
        for one in table.schedules.values()
    ]
    return {"schedules": _encode(kept), "schedules.removed": _encode(removed)}


def load_schedules(parts: Mapping[str, memoryview], table: ScheduleTable) -> None:
    if "schedules" not in parts:
        return
    for one in _schedules.decode(parts["schedules"]):
        table.put(
            Schedule(one.terms, one.created_at, one.next_at, one.last_at, one.last_job, one.paused, one.fired)
        )
    table.removed.load(_removed.decode(parts["schedules.removed"]))
