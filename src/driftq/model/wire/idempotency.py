"""Effects of consumers: begin, commit, fail, extend, resolve, status."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from driftq.model.wire.fields import KEY_MAX, LeaseMs, Name, Natural, Positive, Reason, Request

EffectKey = Annotated[str, Meta(min_length=1, max_length=KEY_MAX)]

ABSENT: Any = UNSET
"""The value of a field that is left out, which is not the same as an empty text."""


class EffectBody(Request, frozen=True, kw_only=True):
    """The identity of an effect."""

    topic: Name
    group: Name
    idempotency_key: EffectKey
    tenant_id: str | None = None


class StatusQuery(EffectBody, frozen=True, kw_only=True):
    """The identity of an effect, and optionally its message.

    `offset` names the message, and `source_topic` the topic that delivered it, if that is not `topic`. They
    distinguish messages of a deleted topic from those of a new one with the same name.
    """

    offset: Natural | None = None
    source_topic: Name | None = None


class BeginBody(StatusQuery, frozen=True, kw_only=True):
    """An owner that is about to cause an effect, and the length of its lease.

    `offset` names the message, and `source_topic` the topic that delivered it, if that is not `topic`. They
    distinguish messages of a deleted topic from those of a new one with the same name.
    """

    owner: Name
    lease_ms: LeaseMs
    effect: Literal["unknown", "idempotent"] | None = None
    """What a crash between effect and commit means: it may have happened, or repeating it is safe."""
    ttl_ms: Positive | None = None
    """How long the result lasts; as long as the server keeps results by default where it is not given."""
    parent_step_id: str | None = None
    """Of a step: the step that it is part of."""


class GrantedBody(EffectBody, frozen=True, kw_only=True):
    """An effect in progress: its owner, and the token of the grant."""

    owner: Name
    token: Positive


class CommitBody(GrantedBody, frozen=True, kw_only=True):
    """The effect is done; duplicates get the result."""

    result: msgspec.Raw | UnsetType = UNSET


class EffectFailBody(GrantedBody, frozen=True, kw_only=True):
    """The effect failed and may begin again."""

    error: Reason | None = None


class EffectExtendBody(GrantedBody, frozen=True, kw_only=True):
    """Renews the lease of an effect."""

    lease_ms: LeaseMs


class ResolveBody(EffectBody, frozen=True, kw_only=True):
    """What became of an effect whose owner did not report it: it happened, or it may begin again."""

    decision: Literal["committed", "retry"] = msgspec.field(name="as")
    result: msgspec.Raw | UnsetType = UNSET


class BeginReply(msgspec.Struct, frozen=True, omit_defaults=True):
    """`proceed` with a token, `already_committed` perhaps with a result, or `held` by another owner.

    `unknown`: its owner declared that a crash leaves it unknown, and has not reported an outcome.
    """

    outcome: Literal["proceed", "already_committed", "held", "unknown"]
    token: int = 0
    result: Any = None
    owner: str = ""
    lease_until: str = ""


class EffectStatus(msgspec.Struct, frozen=True, omit_defaults=True):
    """The status of an effect; `token` is that of a live grant."""

    status: Literal["PENDING", "COMMITTED", "FAILED", "UNKNOWN"]
    owner: str = ""
    lease_until: str = ""
    last_error: str = ABSENT
    """Of an effect that failed; the client reads "" where there is none."""
    result: Any = None
    token: int = 0
