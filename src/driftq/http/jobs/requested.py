"""From the body of a request to a job: its options are its own, or the server's defaults."""

from __future__ import annotations

from collections.abc import Iterable

from driftq.core.jobs.table import job_id
from driftq.errors import InvalidArgument, PayloadTooLarge
from driftq.http.api.params import check_name
from driftq.http.api.tenancy import job_things
from driftq.http.wire.exchange import Exchange
from driftq.model.job import RetryTiming
from driftq.model.options.jobs import JobOptions
from driftq.model.time import parse_rfc3339
from driftq.model.wire.jobs import METADATA_BYTES_MAX, JobRetryBody

_YEAR_10000_MS = 253_402_300_800_000


def require_own_jobs(exchange: Exchange, offsets: Iterable[int]) -> None:
    """Raise JobNotFound for a job that the tenant of the request does not own."""
    for offset in offsets:
        for named in job_things(exchange, job_id(offset)):
            if not exchange.owns(named.thing.kind, named.thing.name):
                raise named.missing


def requested_retry(
    retry: JobRetryBody | None, max_retries: int | None, options: JobOptions
) -> tuple[int, RetryTiming]:
    """Retries after the first attempt, and their timing."""
    if retry is None:
        retries = options.max_attempts - 1 if max_retries is None else max_retries
        return retries, RetryTiming(options.base_ms, options.cap_ms, options.full_jitter)
    if max_retries is not None:
        raise InvalidArgument("max_retries", "is retry.max_attempts without the first: give one of them")
    base_ms = options.base_ms if retry.base_ms is None else retry.base_ms
    cap_ms = max(base_ms, options.cap_ms) if retry.cap_ms is None else retry.cap_ms
    if retry.base_ms is None:
        base_ms = min(base_ms, cap_ms)
    if cap_ms < base_ms:
        raise InvalidArgument("retry.cap_ms", "must not be below base_ms")
    full_jitter = options.full_jitter if retry.jitter is None else retry.jitter == "full"
    attempts = options.max_attempts if retry.max_attempts is None else retry.max_attempts
    return attempts - 1, RetryTiming(base_ms, cap_ms, full_jitter)


def check_metadata(metadata: dict[str, str]) -> None:
    for name in metadata:
        check_name("metadata", name)
    size = sum(len(name.encode()) + len(value.encode()) for name, value in metadata.items())
    if size > METADATA_BYTES_MAX:
        raise PayloadTooLarge(limit_bytes=METADATA_BYTES_MAX)


def run_at_ms(text: str) -> int:
    try:
        run_at = parse_rfc3339(text)
    except (ValueError, OverflowError) as error:
        raise InvalidArgument("run_at", "must be an RFC 3339 time with a zone") from error
    if run_at >= _YEAR_10000_MS:
        raise InvalidArgument("run_at", "must be before the year 10000")
    return max(0, run_at)
