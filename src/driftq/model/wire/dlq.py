"""Dead letters: list, show, redrive and purge."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from driftq.model.envelope import Envelope
from driftq.model.reply import Reply
from driftq.model.value import StoredValue
from driftq.model.wire.fields import Name, Natural, Positive, Reason, Request

SkipReason = Annotated[
    str,
    Meta(
        extra_json_schema={
            "enum": ["group_deleted", "already_redriven", "not_found", "not_stored", "use_dlq_redrive"]
        }
    ),
]
DeadLetterKind = Literal["group", "worker", "projection", "publisher"]


class DeadLetterMatch(Request, frozen=True):
    """A filter for dead letters; all fields must match. `last_error` is a substring, times are RFC 3339.

    `group` is also the name of a worker or projection; `kind` tells them apart.
    """

    group: str | None = None
    reason: str | None = None
    partition: Natural | None = None
    key: str | None = None
    run_id: str | None = None
    tenant_id: str | None = None
    last_error: Reason | None = None
    since: str | None = None
    until: str | None = None
    kind: DeadLetterKind | None = None
    id: Name | None = None
    stage: Name | None = None
    event_id: str | None = None


class DlqQuery(Request, frozen=True):
    """A page; with `handlers`, only dead letters of workers, projections and the publisher."""

    limit: Positive | None = None
    after: Natural | None = None
    handlers: bool | None = None


class RedriveBody(Request, frozen=True):
    """The dead letters to redrive; without a selection all that were not redriven yet."""

    offsets: list[Natural] | None = None
    filter: DeadLetterMatch | None = None
    dry_run: bool | None = None
    rate_per_s: Positive | None = None
    all_groups: bool | None = None
    by: Name | None = None


class PurgeBody(Request, frozen=True):
    """The dead letters to remove permanently; without a selection all."""

    offsets: list[Natural] | None = None
    filter: DeadLetterMatch | None = None
    dry_run: bool | None = None


class DeadLetterTopic(msgspec.Struct, frozen=True):
    """A topic that has dead letters, and where they are."""

    topic: str
    dlq_topic: str
    messages: int
    oldest_at: str | None


class DeadLetterTopicsReply(msgspec.Struct, frozen=True):
    dlqs: list[DeadLetterTopic]


class DeadLetter(StoredValue, frozen=True, kw_only=True, omit_defaults=True):
    """A dead letter; `envelope.dlq` names the group or the handler, the reason and the time."""

    partition: int
    offset: int
    """In the dead-letter topic; `redrive` and `purge` take it."""
    key: str
    value: str
    envelope: Envelope | None = None
    redriven_at: str | None = None
    headers: dict[str, str] | None = None


class DeadLettersReply(msgspec.Struct, frozen=True):
    messages: list[DeadLetter]


class SkippedLetter(msgspec.Struct, frozen=True, omit_defaults=True):
    """A dead letter that was not redriven, and why; `group` is the deleted group that it belongs to.

    With the reason `use_dlq_redrive` it is a worker's or a projection's, and `command` redrives it.
    """

    offset: int
    reason: SkipReason
    group: str | None = None
    command: str | None = None


class Redriven(Reply, frozen=True):
    """How many dead letters matched, how many were redriven, and the first 100 of those that were not."""

    matched: int
    redriven: int
    skipped: list[SkippedLetter] = msgspec.field(default_factory=list)


class Purged(Reply, frozen=True):
    """How many dead letters matched, and how many were removed."""

    matched: int
    purged: int
