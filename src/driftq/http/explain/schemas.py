"""How the past of a message, and a run, are shown."""

from typing import Literal

import msgspec

from driftq.model import Envelope, Routing

GroupState = Literal["waiting", "in_flight", "done", "dead", "redriven", "settled"]


class Happening(msgspec.Struct, frozen=True, omit_defaults=True):
    """One thing that happened to a message."""

    at: str
    what: Literal[
        "stored",
        "delivered",
        "acked",
        "nacked",
        "expired",
        "released",
        "unstarted",
        "dead",
        "passed",
        "redriven",
    ]
    group: str | None = None
    attempt: int | None = None
    owner: str | None = None
    lease_until: str | None = None
    reason: str | None = None
    last_error: str | None = None
    dlq_topic: str | None = None
    dlq_offset: int | None = None
    """Of the dead letter; of a message that was stored by a redrive, the letter that it came from."""
    by: str | None = None
    new_offset: int | None = None
    """Where a redrive has put it."""


class GroupStanding(msgspec.Struct, frozen=True):
    """How one group stands to a message."""

    group: str
    state: GroupState
    attempts: int
    last_error: str


class MessageView(msgspec.Struct, frozen=True, omit_defaults=True):
    topic: str
    partition: int
    offset: int
    key: str
    value: str
    produced_at: str
    groups: list[GroupStanding]
    history: list[Happening]
    envelope: Envelope | None = None
    routing: Routing | None = None
    requested_topic: str | None = None


class StepMessage(msgspec.Struct, frozen=True):
    """A message of a step."""

    topic: str
    partition: int
    offset: int
    produced_at: str
    state: GroupState
    groups: list[GroupStanding]


class StepView(msgspec.Struct, frozen=True):
    """A step of a run; those with the same `step_id` are one."""

    step_id: str | None
    parent_step_id: str | None
    depth: int
    """0 for a step without a parent in this run."""
    children: list[str]
    state: GroupState
    attempts: int
    last_error: str
    messages: list[StepMessage]


class RunView(msgspec.Struct, frozen=True):
    run_id: str
    state: GroupState
    steps: list[StepView]
    """Each behind its parent, siblings in the order in which they were produced."""
