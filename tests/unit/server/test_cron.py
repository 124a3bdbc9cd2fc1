"""Which instants a cron expression names, also where clocks change, and which of them a schedule fires."""

from __future__ import annotations

from datetime import UTC, datetime
from itertools import islice

import pytest

from driftq.core.schedules.records import NO_JOB, ScheduleTerms
from driftq.core.schedules.table import Schedule
from driftq.server.schedules.cron import fires_after, fires_between, next_fire
from driftq.server.schedules.firing import MISSED_MAX, fires_due

BERLIN = "Europe/Berlin"


def ms(text: str) -> int:
    return int(datetime.fromisoformat(text).astimezone(UTC).timestamp() * 1000)


def shown(at: int) -> str:
    return datetime.fromtimestamp(at / 1000, UTC).strftime("%d %H:%M")


def first(cron: str, zone: str, since: str, count: int) -> list[str]:
    return [shown(at) for at in islice(fires_after(cron, zone, ms(since)), count)]


@pytest.mark.clause("J15")
def test_a_fixed_time_fires_once_where_clocks_change() -> None:
    """In Berlin 02:30 is left out on 29 March 2026, and exists twice on 25 October."""
    assert first("30 2 * * *", BERLIN, "2026-03-27T12:00:00+00:00", 3) == ["28 01:30", "29 01:00", "30 00:30"]
    assert first("30 2 * * *", BERLIN, "2026-10-24T12:00:00+00:00", 2) == ["25 00:30", "26 01:30"]


@pytest.mark.clause("J15")
def test_a_wildcard_follows_elapsed_time_where_clocks_change() -> None:
    assert first("*/30 * * * *", BERLIN, "2026-10-25T00:00:00+00:00", 4) == [
        "25 00:30",
        "25 01:00",
        "25 01:30",
        "25 02:00",
    ]
    assert first("0 * * * *", BERLIN, "2026-03-29T00:00:00+00:00", 2) == ["29 01:00", "29 02:00"]


@pytest.mark.clause("J15")
def test_no_instant_is_at_or_before_the_one_it_follows() -> None:
    """Also in the second of two equal hours, where the expression's time seems to lie ahead."""
    since = ms("2026-10-25T01:10:00+00:00")
    assert next_fire("30 2 * * *", BERLIN, since) == ms("2026-10-26T01:30:00+00:00")
    at = ms("2026-01-01T00:00:00+00:00")
    assert next_fire("* * * * *", "UTC", at - 1) == at
    assert next_fire("* * * * *", "UTC", at) == at + 60_000


@pytest.mark.clause("J15")
def test_of_too_many_instants_the_newest_are_taken() -> None:
    begin, end = ms("2026-01-01T00:00:00+00:00"), ms("2026-01-10T00:00:30+00:00")
    found = fires_between("* * * * *", "UTC", begin, end, limit=5)
    assert found == [
        ms(f"2026-01-{'10' if minute == 0 else '09'}T{clock}:00+00:00")
        for minute, clock in ((56, "23:56"), (57, "23:57"), (58, "23:58"), (59, "23:59"), (0, "00:00"))
    ]
    assert fires_between("* * * * *", "UTC", begin, begin + 119_000, limit=5) == [begin, begin + 60_000]


def schedule(missed: str, next_at: int) -> Schedule:
    terms = ScheduleTerms("s", "* * * * *", "UTC", "q", "t", "null", missed, 5, 3)
    return Schedule(terms, created_at=0, next_at=next_at)


@pytest.mark.clause("J15")
@pytest.mark.parametrize("late_s", [1, 59, 61, 3_599])
def test_what_was_missed_follows_the_policy(late_s: int) -> None:
    begin = ms("2026-01-01T00:00:00+00:00")
    wall = begin + late_s * 1000
    due = [begin + minute * 60_000 for minute in range(late_s // 60 + 1)]
    fired = {
        missed: [fire.fire_at for fire in fires_due(schedule(missed, begin), wall=wall, limit=1_000)]
        for missed in ("skip", "last", "all")
    }
    assert fired == {"skip": [at for at in due if at >= wall - 60_000], "last": due[-1:], "all": due}
    for missed in ("skip", "last", "all"):
        *_, newest = fires_due(schedule(missed, begin), wall=wall, limit=1_000)
        assert newest.next_at == due[-1] + 60_000


@pytest.mark.clause("J15")
def test_a_year_of_missed_fires_is_bounded_and_skip_moves_on_without_a_job() -> None:
    begin = ms("2025-01-01T00:00:00+00:00")
    wall = ms("2026-01-01T00:00:30+00:00")
    assert len(fires_due(schedule("all", begin), wall=wall, limit=10_000)) == MISSED_MAX
    hourly = schedule("skip", begin)
    hourly.terms = ScheduleTerms("s", "0 12 * * *", "UTC", "q", "t", "null", "skip", 5, 3)
    hourly.next_at = ms("2025-01-01T12:00:00+00:00")
    (passed,) = fires_due(hourly, wall=wall, limit=10)
    assert (passed.offset, passed.next_at) == (NO_JOB, ms("2026-01-01T12:00:00+00:00"))
