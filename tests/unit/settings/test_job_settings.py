"""The settings of jobs."""

import pytest

from driftq.model.options.jobs import JobOptions
from driftq.settings import PROFILES, SettingsRefused, load_settings


@pytest.mark.clause("J14", "N2")
def test_the_default_outlasts_an_outage_and_v1_dev_keeps_its_numbers() -> None:
    assert load_settings(environ={}).jobs == JobOptions(max_attempts=20, base_ms=2_000, cap_ms=3_600_000)
    v1_dev = load_settings(PROFILES["v1-dev"], environ={}).jobs
    assert v1_dev == JobOptions(max_attempts=4, base_ms=500, cap_ms=30_000, full_jitter=True)


@pytest.mark.clause("J14", "N1")
def test_the_environment_wins_over_the_profile() -> None:
    environ = {"DRIFTQ_JOBS_RETRY_MAX_ATTEMPTS": "7", "DRIFTQ_JOBS_RETRY_JITTER": "none"}
    jobs = load_settings(PROFILES["v1-dev"], environ=environ).jobs
    assert jobs == JobOptions(max_attempts=7, base_ms=500, cap_ms=30_000, full_jitter=False)


@pytest.mark.clause("J23", "N1")
def test_how_long_ended_jobs_are_kept_is_a_setting() -> None:
    assert load_settings(environ={}).limits.jobs_kept_ms == 30 * 86_400_000
    assert load_settings(environ={"DRIFTQ_JOBS_KEPT_MS": "5000"}).limits.jobs_kept_ms == 5_000


@pytest.mark.clause("J14", "N1")
@pytest.mark.parametrize(
    ("environ", "named"),
    [
        ({"DRIFTQ_JOBS_RETRY_MAX_ATTEMPTS": "0"}, "DRIFTQ_JOBS_RETRY_MAX_ATTEMPTS"),
        ({"DRIFTQ_JOBS_RETRY_JITTER": "some"}, "DRIFTQ_JOBS_RETRY_JITTER"),
        ({"DRIFTQ_JOBS_RETRY_CAP_MS": "1999"}, "DRIFTQ_JOBS_RETRY_CAP_MS"),
        ({"DRIFTQ_JOBS_RETRY_BASE": "5"}, "DRIFTQ_JOBS_RETRY_BASE"),
    ],
)
def test_what_makes_no_sense_is_refused_by_name(environ: dict[str, str], named: str) -> None:
    with pytest.raises(SettingsRefused, match=named):
        load_settings(environ=environ)
