"""What may be asked about the effects of consumers, and what is answered."""

from typing import Annotated, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from driftq.http.api.schemas import LeaseMs, Name, Natural, Positive, Reason, Request

KEY_MAX = 65_536

Key = Annotated[str, Meta(min_length=1, max_length=KEY_MAX)]


class BeginBody(Request, frozen=True):
    """Who is about to cause which effect, and for how long nobody else may.

    `offset` says for which message, and `source_topic` where it was delivered from, if that is not `topic`.
    They tell messages of a deleted topic from those of a new one with its name.
    """

    topic: Name
    group: Name
    idempotency_key: Key
    owner: Name
    lease_ms: LeaseMs
    tenant_id: str | None = None
    offset: Natural | None = None
    source_topic: Name | None = None


class CommitBody(Request, frozen=True):
    """The effect is done; duplicates are given the result."""

    topic: Name
    group: Name
    idempotency_key: Key
    owner: Name
    token: Positive
    result: msgspec.Raw | UnsetType = UNSET
    tenant_id: str | None = None


class EffectFailBody(Request, frozen=True):
    """The effect failed and may begin again."""

    topic: Name
    group: Name
    idempotency_key: Key
    owner: Name
    token: Positive
    error: Reason | None = None
    tenant_id: str | None = None


class EffectExtendBody(Request, frozen=True):
    """Still at it: the lease begins anew."""

    topic: Name
    group: Name
    idempotency_key: Key
    owner: Name
    token: Positive
    lease_ms: LeaseMs
    tenant_id: str | None = None


class StatusQuery(Request, frozen=True):
    """Which effect, and for which message if that is said."""

    topic: Name
    group: Name
    idempotency_key: Key
    tenant_id: str | None = None
    offset: Natural | None = None
    source_topic: Name | None = None


class BeginReply(msgspec.Struct, frozen=True, omit_defaults=True):
    """`proceed` with a token, `already_committed` perhaps with a result, or `held` by somebody."""

    outcome: Literal["proceed", "already_committed", "held"]
    token: int | UnsetType = UNSET
    result: msgspec.Raw | UnsetType = UNSET
    owner: str | UnsetType = UNSET
    lease_until: str | UnsetType = UNSET


class EffectStatusReply(msgspec.Struct, frozen=True, omit_defaults=True):
    status: Literal["PENDING", "COMMITTED", "FAILED"]
    owner: str | UnsetType = UNSET
    lease_until: str | UnsetType = UNSET
    last_error: str | UnsetType = UNSET
    result: msgspec.Raw | UnsetType = UNSET
    token: int | UnsetType = UNSET
