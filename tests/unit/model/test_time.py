"""Instants keep their last digit on the way to text and back."""

import datetime as dt

import pytest

from driftq.model.time import microseconds, parse_rfc3339, rfc3339, rfc3339_us, utc

YEAR_9999_MS = 253_402_300_799_999


@pytest.mark.parametrize(
    "at_ms", [0, 1, 1_700_000_000_123, 2_150_000_000_001, 9_000_000_000_007, YEAR_9999_MS]
)
def test_milliseconds_survive_text(at_ms: int) -> None:
    assert parse_rfc3339(rfc3339(at_ms)) == at_ms


def test_text_is_utc_with_a_fixed_number_of_digits() -> None:
    assert rfc3339(0) == "1970-01-01T00:00:00.000Z"
    assert rfc3339(1_700_000_000_120) == "2023-11-14T22:13:20.120Z"
    assert rfc3339_us(1_700_000_000_120_000) == "2023-11-14T22:13:20.120000Z"


def test_a_zone_is_applied_and_smaller_digits_are_cut_off() -> None:
    assert parse_rfc3339("1970-01-01T02:00:00.0019+02:00") == 1


def test_an_instant_just_outside_the_calendar_in_utc_has_a_number() -> None:
    assert parse_rfc3339("9999-12-31T23:59:59.999-01:00") == YEAR_9999_MS + 3_600_000


@pytest.mark.parametrize(
    "text", ["", "tomorrow", "2026-01-01", "2026-01-01T00:00:00", "2026-13-01T00:00:00Z"]
)
def test_anything_but_a_time_with_a_zone_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        parse_rfc3339(text)


def test_a_datetime_needs_a_zone() -> None:
    with pytest.raises(ValueError):
        microseconds(dt.datetime.now(dt.UTC).replace(tzinfo=None))


def test_microseconds_and_datetimes_are_inverse() -> None:
    instant = dt.datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=dt.UTC)
    assert utc(microseconds(instant)) == instant
