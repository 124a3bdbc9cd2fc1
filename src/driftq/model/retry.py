"""`driftq.RetryPolicy`: how often and at what intervals a message is redelivered or a job retried."""

from __future__ import annotations

from typing import Any, Literal

from driftq.model.envelope import MessageRetryPolicy

Errors = type[BaseException] | tuple[type[BaseException], ...]


class RetryPolicy(MessageRetryPolicy, frozen=True, kw_only=True):
    """How often and at what intervals a message is redelivered, or a job retried.

    A message's policy has `backoff_ms` and `max_backoff_ms`. A job's has the other fields: before retry k it
    waits up to `base` · 2^(k-1) seconds, at most `cap` seconds; a jitter of "none" waits exactly that long.
    What is not given is the server's default.
    """

    base: float | None = None
    """Seconds."""
    cap: float | None = None
    """Seconds."""
    jitter: Literal["full", "none"] | None = None
    retry_for: Errors = ()
    """Only these errors are retried; with none, every error is."""
    give_up_on: Errors = ()
    """After one of these errors the job is dead at once, also if it is in `retry_for`."""

    @property
    def is_for_jobs(self) -> bool:
        """Whether it has fields that no message takes."""
        timing = (self.base, self.cap, self.jitter)
        return any(given is not None for given in timing) or bool(self.known_errors)

    @property
    def known_errors(self) -> tuple[type[BaseException], ...]:
        """The error classes that it names."""
        return (*_classes(self.retry_for), *_classes(self.give_up_on))

    def job_problem(self) -> str | None:
        """Why it cannot be a job's policy, or None when it can."""
        if self.backoff_ms is not None or self.max_backoff_ms is not None:
            return "backoff_ms and max_backoff_ms are for messages; give base and cap, in seconds"
        if self.max_attempts is not None and self.max_attempts < 1:
            return "max_attempts must be at least 1"
        if any(given is not None and given < 0 for given in (self.base, self.cap)):
            return "base and cap must not be negative"
        if self.base is not None and self.cap is not None and self.cap < self.base:
            return "cap must not be below base"
        if self.jitter not in (None, "full", "none"):
            return 'jitter must be "full" or "none"'
        wrong = [one for one in self.known_errors if not _is_error_class(one)]
        return f"{wrong[0]!r} is not a class of errors" if wrong else None

    def job_fields(self) -> dict[str, Any]:
        """The `retry` object of `POST /v1/jobs`."""
        given = {
            "max_attempts": self.max_attempts,
            "base_ms": None if self.base is None else round(self.base * 1000),
            "cap_ms": None if self.cap is None else round(self.cap * 1000),
            "jitter": self.jitter,
        }
        return {name: value for name, value in given.items() if value is not None}

    def allows_retry(self, error: BaseException) -> bool:
        """Whether a job that raised this error may be retried."""
        if isinstance(error, _classes(self.give_up_on)):
            return False
        wanted = _classes(self.retry_for)
        return not wanted or isinstance(error, wanted)


def _classes(given: Errors) -> tuple[type[BaseException], ...]:
    return (given,) if isinstance(given, type) else tuple(given)


def _is_error_class(given: object) -> bool:
    return isinstance(given, type) and issubclass(given, BaseException)
