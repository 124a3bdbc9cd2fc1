"""The ids that a log line carries: which request, message, run or job it is about.

`log_ids` sets them for everything that is logged inside a block, also by a handler's own code; `ids` is the
`extra` of a single line. Ids only: keys, values and payloads are not among the names.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, TypedDict, Unpack

ATTRIBUTE = "driftq_ids"
"""The attribute of a LogRecord that `ids` sets."""


class LogIds(TypedDict, total=False):
    """Every id that a line may carry."""

    request_id: str
    topic: str
    partition: int
    offset: int
    group: str
    attempt: int
    run_id: str
    step_id: str
    queue: str
    job_id: str
    event_id: str
    pipeline: str


_current: ContextVar[Mapping[str, Any]] = ContextVar("driftq_log_ids", default={})  # noqa: B039 - never changed


@contextmanager
def log_ids(**given: Unpack[LogIds]) -> Iterator[None]:
    """Lines that are logged inside carry these ids, besides those of blocks around it."""
    token = _current.set({**_current.get(), **given})
    try:
        yield
    finally:
        _current.reset(token)


def current_ids() -> Mapping[str, Any]:
    return _current.get()


def ids(**given: Unpack[LogIds]) -> dict[str, Any]:
    """For `extra=` of one line."""
    return {ATTRIBUTE: given}
