"""Many jobs in one request: a batch to enqueue, and dead jobs to requeue."""

from __future__ import annotations

from typing import Annotated

import msgspec

from driftq.model.reply import Reply
from driftq.model.wire.fields import OR_ERROR, Name, Positive, Reason, Request
from driftq.model.wire.jobs import EnqueuedJob, JobBody


class JobBatchBody(Request, frozen=True):
    """The jobs to enqueue."""

    jobs: list[JobBody]


class JobBatchParts(Request, frozen=True):
    """The same with each job undecoded."""

    jobs: list[msgspec.Raw]


class JobBatchReply(msgspec.Struct, frozen=True):
    """One for each, in order."""

    results: Annotated[list[EnqueuedJob], OR_ERROR]


class DeadJobMatch(Request, frozen=True, omit_defaults=True):
    """A filter for dead jobs; all fields must match. `error` is a substring, times are RFC 3339.

    `since` and `until` are about the time at which the job became dead.
    """

    task: Name | None = None
    error: Reason | None = None
    since: str | None = None
    until: str | None = None


class RequeueBody(Request, frozen=True, omit_defaults=True):
    """The dead jobs to requeue; without a selection all of them."""

    queue: Name | None = None
    filter: DeadJobMatch | None = None
    dry_run: bool | None = None
    rate_per_s: Positive | None = None


class RequeuedJobs(Reply, frozen=True):
    """How many dead jobs matched, and how many were requeued."""

    matched: int
    requeued: int
