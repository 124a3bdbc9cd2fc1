"""What happened to a message, and to the messages of a run."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from driftq.model.envelope import Envelope
from driftq.model.message import Routing
from driftq.model.value import StoredValue

GroupState = Literal["waiting", "in_flight", "done", "dead", "redriven", "settled"]
StepState = Literal["waiting", "in_flight", "done", "dead", "redriven", "settled", "unknown", "failed"]

_WHAT = ("stored", "delivered", "acked", "nacked", "expired", "released", "unstarted", "dead", "passed")
What = Annotated[str, Meta(extra_json_schema={"enum": [*_WHAT, "redriven"]})]


class TimelineEntry(msgspec.Struct, frozen=True, omit_defaults=True):
    """One entry of a message's history; `what` decides which of the other fields it has."""

    at: str
    what: What
    group: str | None = None
    attempt: int | None = None
    owner: str | None = None
    lease_until: str | None = None
    reason: str | None = None
    last_error: str | None = None
    dlq_topic: str | None = None
    dlq_offset: int | None = None
    """Of the dead letter; of a message that a redrive has stored, the dead letter that it came from."""
    by: str | None = None
    new_offset: int | None = None
    """The offset at which a redrive has stored it."""
    waits_until: str | None = None
    """Of a delayed message that is stored: when groups get it."""


class GroupStatus(msgspec.Struct, frozen=True):
    """The status of a message in one group."""

    group: str
    state: GroupState
    attempts: int
    last_error: str


class ExplainedMessage(StoredValue, frozen=True, kw_only=True, omit_defaults=True):
    """A stored message, its status in each group, and its history."""

    topic: str
    partition: int
    offset: int
    key: str
    value: str
    produced_at: str
    groups: list[GroupStatus]
    history: list[TimelineEntry]
    envelope: Envelope | None = None
    routing: Routing | None = None
    requested_topic: str | None = None


class ExplainedStepMessage(msgspec.Struct, frozen=True):
    """A message of a step."""

    topic: str
    partition: int
    offset: int
    produced_at: str
    state: GroupState
    groups: list[GroupStatus]


class ExplainedStepEffect(msgspec.Struct, frozen=True, omit_defaults=True):
    """A step as `driftq.steps` ran it: `unknown` waits for a decision, `failed` may begin again."""

    group: str
    state: StepState
    attempts: int
    at: str
    """When it ended; of a step under way, when it began or was extended."""
    owner: str = ""
    lease_until: str = ""
    last_error: str = ""
    result: Any = None
    tenant_id: str = ""


class ExplainedStep(msgspec.Struct, frozen=True):
    """A step of a run; messages and effects with the same `step_id` are one."""

    step_id: str | None
    parent_step_id: str | None
    depth: int
    """0 for a step without a parent in this run."""
    children: list[str]
    state: StepState
    attempts: int
    last_error: str
    messages: list[ExplainedStepMessage]
    effects: list[ExplainedStepEffect] = []


class ExplainedRun(msgspec.Struct, frozen=True):
    """A run as a tree: each step follows its parent, siblings in the order they were produced."""

    run_id: str
    state: StepState
    steps: list[ExplainedStep]
