"""What may be asked about dead letters, and how they are shown."""

from typing import Literal

import msgspec

from driftq.http.api.schemas import Name, Natural, Positive, Reason, Request
from driftq.model import Envelope


class LetterFilter(Request, frozen=True):
    """Letters of which all of this is true; `last_error` is a part of the text, times are RFC 3339."""

    group: str | None = None
    reason: str | None = None
    partition: Natural | None = None
    key: str | None = None
    run_id: str | None = None
    tenant_id: str | None = None
    last_error: Reason | None = None
    since: str | None = None
    until: str | None = None


class DlqQuery(Request, frozen=True):
    limit: Positive | None = None
    after: Natural | None = None


class RedriveBody(Request, frozen=True):
    """Which letters are sent again; nothing given means all that were not yet."""

    offsets: list[Natural] | None = None
    filter: LetterFilter | None = None
    dry_run: bool | None = None
    rate_per_s: Positive | None = None
    all_groups: bool | None = None
    by: Name | None = None


class PurgeBody(Request, frozen=True):
    """Which letters go for good; nothing given means all."""

    offsets: list[Natural] | None = None
    filter: LetterFilter | None = None
    dry_run: bool | None = None


class DlqView(msgspec.Struct, frozen=True):
    topic: str
    dlq_topic: str
    messages: int
    oldest_at: str | None


class DlqsReply(msgspec.Struct, frozen=True):
    dlqs: list[DlqView]


class LetterView(msgspec.Struct, frozen=True, omit_defaults=True):
    partition: int
    offset: int
    key: str
    value: str
    envelope: Envelope | None = None
    redriven_at: str | None = None


class LettersReply(msgspec.Struct, frozen=True):
    messages: list[LetterView]


class SkippedView(msgspec.Struct, frozen=True, omit_defaults=True):
    """A dead letter that was not sent again; `group` is the deleted one that gave it up."""

    offset: int
    reason: Literal["group_deleted", "already_redriven", "not_found", "not_stored"]
    group: str | None = None


class RedriveReply(msgspec.Struct, frozen=True):
    """Each letter that matched was redriven or skipped; `skipped` has the first 100 of the latter."""

    matched: int
    redriven: int
    skipped: list[SkippedView]


class PurgeReply(msgspec.Struct, frozen=True):
    matched: int
    purged: int
