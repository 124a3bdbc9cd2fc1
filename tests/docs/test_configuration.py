"""The settings page has the numbers that the code has."""

import re
from pathlib import Path

import pytest

from driftq.model.options.jobs import JobOptions
from driftq.model.options.limits import Limits
from driftq.settings import PROFILES, SETTINGS, load_settings

PAGE = (Path(__file__).resolve().parents[2] / "docs/reference/settings.md").read_text(encoding="utf-8")


def number(cell: str) -> int:
    """`10,000 messages`, `2,000 ms` and the like."""
    match = re.fullmatch(r"([\d,]+) (messages|bytes|ms|attempts)", cell)
    assert match, cell
    return int(match[1].replace(",", ""))


def profile_table() -> dict[str, tuple[str, str]]:
    section = PAGE.split("## Profiles")[1].split("\n## ")[0]
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")] for line in section.splitlines() if "|" in line
    ]
    assert rows[0] == ["Limit", "`default`", "`v1-dev`"]
    return {limit: (default, v1_dev) for limit, default, v1_dev in rows[2:]}


def described(limits: Limits, jobs: JobOptions) -> dict[str, int]:
    return {
        "`DRIFTQ_JOBS_RETRY_MAX_ATTEMPTS`": jobs.max_attempts,
        "`DRIFTQ_JOBS_RETRY_BASE_MS`": jobs.base_ms,
        "`DRIFTQ_JOBS_RETRY_CAP_MS`": jobs.cap_ms,
        "`DRIFTQ_BROKER_IN_FLIGHT_MAX`": limits.in_flight_max,
        "`DRIFTQ_BROKER_ACK_TIMEOUT_MS`": limits.ack_timeout_ms,
        "`DRIFTQ_BROKER_PARTITION_MESSAGES_MAX`": limits.partition_messages_max,
        "`DRIFTQ_BROKER_PARTITION_BYTES_MAX`": limits.partition_bytes_max,
        "`DRIFTQ_BROKER_IDEMPOTENCY_TTL_MS`": limits.idempotency_ttl_ms,
    }


@pytest.mark.clause("N2")
@pytest.mark.parametrize(("column", "profile"), enumerate(["default", "v1-dev"]))
def test_the_profile_tables_show_what_is_in_force(column: int, profile: str) -> None:
    settings = load_settings(PROFILES[profile], environ={})
    limits = settings.limits
    table = profile_table()
    unread = table.pop("Messages of a topic without a group or reader")
    assert {limit: number(cells[column]) for limit, cells in table.items()} == described(
        limits, settings.jobs
    )
    assert unread[column] == ("count" if limits.count_unread else "do not count")


@pytest.mark.clause("N2")
def test_there_are_no_profiles_but_those_of_the_page() -> None:
    assert list(PROFILES) == ["default", "v1-dev"]


@pytest.mark.parametrize("name", [spec.name for spec in SETTINGS])
def test_every_knob_is_on_the_page(name: str) -> None:
    assert f"| `{name}` |" in PAGE


def test_the_page_has_no_knob_that_does_not_exist() -> None:
    assert set(re.findall(r"`(DRIFTQ_[A-Z_]+[A-Z])`", PAGE)) <= {spec.name for spec in SETTINGS}
