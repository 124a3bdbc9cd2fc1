"""The pipeline as a server shows it: the claims of its handlers, and what its drivers report."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from driftq.model.wire.fields import Name, Natural, Reason, Request

PAGE_MAX = 1_000
OUTBOX_KIND = "outbox"
"""What the relay of an outbox reports as its kind."""

PageLimit = Annotated[int, Meta(ge=1, le=PAGE_MAX)]
Text = Annotated[str, Meta(max_length=4_096)]
ClaimStateName = Literal["claimed", "failed", "ready", "done", "stale", "dead", "unknown"]
_CLAIM_STATES = ["claimed", "failed", "ready", "done", "stale", "dead", "unknown"]
ReportedState = Literal["running", "waiting", "target_away", "ended", "failed"]
_SHOWN_STATES = ["running", "waiting", "target_away", "ended", "failed", "silent"]


# Claims


class ClaimsQuery(Request, frozen=True):
    """Which claims: without a state, all that are neither `done` nor `stale`."""

    state: ClaimStateName | None = None
    handler: Name | None = None
    limit: PageLimit | None = None
    after: str | None = None


class ClaimView(msgspec.Struct, frozen=True, omit_defaults=True):
    """A handler's claim on one event. Times that do not apply are absent."""

    handler: str
    event_id: str
    state: Annotated[str, Meta(extra_json_schema={"enum": _CLAIM_STATES})]
    aggregate_type: str
    aggregate_id: str
    sequence_number: int
    attempts: int
    owner: str
    effect: str
    claimed_at: str
    lease_until: str | None = None
    """Of a claim that a worker holds."""
    retry_at: str | None = None
    """Of a failed claim."""
    finished_at: str | None = None
    last_error: str = msgspec.field(default_factory=str)
    reason: str = msgspec.field(default_factory=str)
    """Why it is in its state, where that is known."""
    requeues: int = msgspec.field(default_factory=int)


class ClaimsReply(msgspec.Struct, frozen=True, omit_defaults=True):
    """A page of claims. It may be shorter than `limit`, or empty, and still have a `next`."""

    claims: list[ClaimView]
    next: str | None = None
    """The `after` of the next page; absent at the end."""


class ClaimDecisionBody(Request, frozen=True):
    """What became of an effect: `done` it happened, `retry` it did not, `dead` give it up."""

    handler: Name
    event_id: Annotated[str, Meta(min_length=1, max_length=4_096)]
    as_: Literal["done", "retry", "dead"] = msgspec.field(name="as")
    by: Name | None = None
    """Who found out; the name of the key by default."""


# Reports


class PipelineReport(Request, frozen=True, omit_defaults=True):
    """What a driver reports of one job after a batch, and while it waits."""

    kind: Name
    """publisher, worker, projection, rebuild, compact, bridge, outbox; or a word of your own."""
    state: ReportedState
    last_batch: Natural | None = None
    batch_rows: Natural | None = None
    batch_ms: Natural | None = None
    rows: Natural | None = None
    """Over all runs."""
    rows_per_second: Annotated[float, Meta(ge=0)] | None = None
    lag: Natural | None = None
    """Rows that were available and not read; absent where the source cannot tell."""
    checkpoint: Text | None = None
    sinks: Annotated[list[Text], Meta(max_length=64)] | None = None
    restarts: Natural | None = None
    dead_letters: Natural | None = None
    outages: Natural | None = None
    error: Reason | None = None
    """A sentence: why it waits or failed, or which target is away."""
    driver: Text | None = None
    """The host and process that report."""
    started_at: Annotated[str, Meta(max_length=64)] | None = None


class PipelineView(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """The newest report of one job. It is `silent` when a job that should run has not reported for 30 s."""

    name: str
    kind: str
    state: Annotated[str, Meta(extra_json_schema={"enum": _SHOWN_STATES})]
    reported_at: str
    reported_state: str | None = None
    """Of a silent job: the last state that its driver reported."""
    last_batch: int | None = None
    batch_rows: int | None = None
    batch_ms: int | None = None
    rows: int | None = None
    rows_per_second: float | None = None
    lag: int | None = None
    checkpoint: str | None = None
    sinks: list[str] | None = None
    restarts: int | None = None
    dead_letters: int | None = None
    outages: int | None = None
    error: str | None = None
    driver: str | None = None
    started_at: str | None = None


class PipelinesQuery(Request, frozen=True):
    """Which part of the list, by name."""

    limit: PageLimit | None = None
    after: str | None = None


class PipelinesReply(msgspec.Struct, frozen=True, omit_defaults=True):
    """Jobs by name."""

    pipelines: list[PipelineView]
    next: str | None = None
