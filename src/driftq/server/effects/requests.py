"""What the effects stage is asked: one request for each call of `/v1/idempotency`, and one for a run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import msgspec

from driftq.core.effects import Identity
from driftq.core.records import NO_TERMS, EffectTerms
from driftq.server.requests import Reply


class EffectSource(NamedTuple):
    """The message that an effect is for: the topic it was delivered from, and its offset there."""

    topic: str
    offset: int


@dataclass(frozen=True, slots=True)
class BeginRequest:
    """Answered by EffectBegun, HeldEffect, LapsedEffect or CommittedEffect.

    Without a source, the effect belongs to the topic of the name.
    """

    identity: Identity
    owner: str
    lease_ms: int
    reply: Reply
    source: EffectSource | None = None
    terms: EffectTerms = NO_TERMS


@dataclass(frozen=True, slots=True)
class CommitRequest:
    """The effect is done; answered by None."""

    identity: Identity
    owner: str
    token: int
    result: bytes | None
    reply: Reply


@dataclass(frozen=True, slots=True)
class FailRequest:
    identity: Identity
    owner: str
    token: int
    error: str
    reply: Reply


@dataclass(frozen=True, slots=True)
class ExtendEffectRequest:
    identity: Identity
    owner: str
    token: int
    lease_ms: int
    reply: Reply


@dataclass(frozen=True, slots=True)
class ResolveRequest:
    """A decision about an effect whose owner reported none; answered by None, EffectHeld or EffectDone."""

    identity: Identity
    committed: bool
    result: bytes | None
    reply: Reply


@dataclass(frozen=True, slots=True)
class RunStepsRequest:
    """Answered by a list of StepRecord, those that are open first."""

    run_id: str
    reply: Reply


@dataclass(frozen=True, slots=True)
class StatusRequest:
    """Answered by an EffectRecord, or EffectNotFound."""

    identity: Identity
    reply: Reply
    source: EffectSource | None = None


class EffectRecord(msgspec.Struct, frozen=True, omit_defaults=True):
    status: str
    owner: str | None = None
    lease_until: int | None = None
    last_error: str | None = None
    result: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    token: int | None = None
    """Of a live grant: its owner, whose reply was lost, goes on with it."""


class StepRecord(msgspec.Struct, frozen=True):
    """A step of a run."""

    identity: Identity
    step: str
    parent: str
    attempt: int
    at: int
    """When it was committed or failed, or when its grant began or was extended."""
    found: EffectRecord


EffectsRequest = (
    BeginRequest | CommitRequest | FailRequest | ExtendEffectRequest | ResolveRequest | StatusRequest
)
