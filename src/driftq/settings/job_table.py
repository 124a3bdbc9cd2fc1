"""The settings of jobs: the retry policy of those that have none, and how long ended jobs are kept."""

from collections.abc import Iterator, Mapping

from driftq.model.options.jobs import JobOptions
from driftq.model.options.limits import Limits
from driftq.settings.spec import Choice, IntRange, Problem, SettingSpec, Value

_YEAR_MS = 366 * 86_400_000
_ATTEMPTS_MAX = 10_000
_DEFAULT = JobOptions()

RETRY_MAX_ATTEMPTS = SettingSpec(
    name="DRIFTQ_JOBS_RETRY_MAX_ATTEMPTS",
    default=_DEFAULT.max_attempts,
    kind=IntRange(1, _ATTEMPTS_MAX, "attempts"),
    meaning="attempts of a job that names no limit of its own",
)
RETRY_BASE_MS = SettingSpec(
    name="DRIFTQ_JOBS_RETRY_BASE_MS",
    default=_DEFAULT.base_ms,
    kind=IntRange(0, _YEAR_MS, "ms"),
    meaning="the longest wait before the first retry of a job; it doubles with each retry",
)
RETRY_CAP_MS = SettingSpec(
    name="DRIFTQ_JOBS_RETRY_CAP_MS",
    default=_DEFAULT.cap_ms,
    kind=IntRange(0, _YEAR_MS, "ms"),
    meaning="the longest wait before any retry of a job",
)
RETRY_JITTER = SettingSpec(
    name="DRIFTQ_JOBS_RETRY_JITTER",
    default="full",
    kind=Choice(("full", "none")),
    meaning="a random part of the wait before a retry of a job, or the whole wait",
)
KEPT_MS = SettingSpec(
    name="DRIFTQ_JOBS_KEPT_MS",
    default=Limits().jobs_kept_ms,
    kind=IntRange(1, 100 * _YEAR_MS, "ms"),
    meaning="how long an ended job can be read, with its result",
)

JOB_SETTINGS = (RETRY_MAX_ATTEMPTS, RETRY_BASE_MS, RETRY_CAP_MS, RETRY_JITTER, KEPT_MS)


def job_options(values: Mapping[str, Value | None]) -> JobOptions:
    """The server's retry policy."""
    return JobOptions(
        max_attempts=_number(values, RETRY_MAX_ATTEMPTS),
        base_ms=_number(values, RETRY_BASE_MS),
        cap_ms=_number(values, RETRY_CAP_MS),
        full_jitter=values[RETRY_JITTER.name] == "full",
    )


def job_problems(values: Mapping[str, Value | None]) -> Iterator[Problem]:
    """Values that are valid alone but not together."""
    if _number(values, RETRY_CAP_MS) < _number(values, RETRY_BASE_MS):
        must_be = f"at least {RETRY_BASE_MS.name}, which is {values[RETRY_BASE_MS.name]}"
        yield Problem(RETRY_CAP_MS.name, str(values[RETRY_CAP_MS.name]), must_be)


def _number(values: Mapping[str, Value | None], spec: SettingSpec) -> int:
    return int(values[spec.name] or 0)
