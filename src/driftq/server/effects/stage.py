"""The consumers' side of idempotency in the engine's turn: begin, commit, fail, extend, status.

A committed effect is a message of an internal topic that holds the identity and the result.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import msgspec

from driftq.core.decide.effects import (
    CommittedEffect,
    EffectScope,
    HeldEffect,
    decide_begin,
    decide_fail,
    require_pending,
    scope_of,
)
from driftq.core.effects import EFFECTS_TOPIC, Identity, belongs, effect_print
from driftq.core.jobs.transitions import check_lease
from driftq.core.keys import MessageRef
from driftq.core.records import EffectBegun, EffectCommitted, TopicCreated
from driftq.core.state import State, Topic
from driftq.errors import DriftQError, EffectNotFound
from driftq.model import StoredMessage, TopicOptions
from driftq.server.requests import Reply
from driftq.server.turn import RequestQueue, Turn
from driftq.storage.entry import PREFIX_BYTES, encode_text, encode_time, produced_at


class StoredEffect(msgspec.Struct, frozen=True):
    """The stored form of a committed effect."""

    identity: Identity
    owner: str
    token: int
    result: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    topic: int = 0
    """The id of the requested topic; 0 when no topic had that name, or from before ids were kept."""


class EffectSource(NamedTuple):
    """The message that an effect is for: the topic it was delivered from, and its offset there."""

    topic: str
    offset: int


@dataclass(frozen=True, slots=True)
class BeginRequest:
    """Answered by EffectBegun, HeldEffect or CommittedEffect. Without a source, the topic of the name."""

    identity: Identity
    owner: str
    lease_ms: int
    reply: Reply
    source: EffectSource | None = None


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


EffectsRequest = BeginRequest | CommitRequest | FailRequest | ExtendEffectRequest | StatusRequest

_decoder = msgspec.json.Decoder(StoredEffect)


class EffectsStage(RequestQueue[EffectsRequest]):
    """Decides one request after the other, in the order of their submission."""

    handles: ClassVar = (BeginRequest, CommitRequest, FailRequest, ExtendEffectRequest, StatusRequest)

    def decide(self, turn: Turn) -> None:
        turn.state.effects.expire(turn.now)
        if self.requests:
            for request in self.take():
                self._decide_one(turn, request)

    def _decide_one(self, turn: Turn, request: EffectsRequest) -> None:
        refs = [*_effect_refs(turn.state, request.identity), *_source_refs(turn.state, request)]
        cold = turn.lookup.cold(refs)
        if cold:
            turn.requeue_when_read(cold, request)
            return
        try:
            answer = self._answer(turn, request)
        except DriftQError as refused:
            answer = refused
        turn.reply(request, answer)

    def _answer(self, turn: Turn, request: EffectsRequest) -> Any:
        match request:
            case BeginRequest():
                return self._begin(turn, request)
            case CommitRequest():
                return self._commit(turn, request)
            case FailRequest():
                return self._fail(turn, request)
            case ExtendEffectRequest():
                return self._extend(turn, request)
            case StatusRequest():
                return self._status(turn, request.identity, _scope(turn, request))

    def _begin(self, turn: Turn, request: BeginRequest) -> EffectBegun | HeldEffect | CommittedEffect:
        scope = _scope(turn, request)
        decided = decide_begin(
            turn.state,
            request.identity,
            topic=scope.topic,
            owner=request.owner,
            lease_ms=request.lease_ms,
            done=_committed(_committed_in(turn, request.identity, scope.topics)),
            now=turn.now,
        )
        if isinstance(decided, EffectBegun):
            turn.journal.add(decided)
        return decided

    def _commit(self, turn: Turn, request: CommitRequest) -> None:
        for stored in _committed_effects(turn, request.identity):
            if stored.token == request.token and stored.owner == request.owner:
                return  # A repeated commit.
        pending = require_pending(turn.state, request.identity, owner=request.owner, token=request.token)
        effect = StoredEffect(
            identity=request.identity,
            owner=request.owner,
            token=request.token,
            result=msgspec.Raw(request.result) if request.result is not None else msgspec.UNSET,
            topic=pending.topic,
        )
        turn.journal.add_texts(
            _effects_topic(turn),
            [encode_text(msgspec.json.encode(effect), encode_time(turn.now))],
            also=EffectCommitted(at=turn.now, identity=request.identity, topic=pending.topic),
            now=turn.now,
            fingerprints=[effect_print(request.identity)],
        )

    def _fail(self, turn: Turn, request: FailRequest) -> None:
        record = decide_fail(
            turn.state,
            request.identity,
            owner=request.owner,
            token=request.token,
            error=request.error,
            now=turn.now,
        )
        if record is not None:
            turn.journal.add(record)

    def _extend(self, turn: Turn, request: ExtendEffectRequest) -> None:
        """The same grant, for longer."""
        check_lease(request.lease_ms)
        pending = require_pending(turn.state, request.identity, owner=request.owner, token=request.token)
        turn.journal.add(
            EffectBegun(
                at=turn.now,
                identity=request.identity,
                owner=request.owner,
                lease_ms=request.lease_ms,
                token=request.token,
                topic=pending.topic,
            )
        )

    def _status(self, turn: Turn, identity: Identity, scope: EffectScope) -> EffectRecord:
        stored = _committed_in(turn, identity, scope.topics)
        if stored is not None:
            return EffectRecord(status="COMMITTED", owner=stored.owner, result=stored.result)
        effects = turn.state.effects
        pending = effects.pending_for(identity, scope.topic)
        if pending is not None:
            return EffectRecord(
                status="PENDING", owner=pending.owner, lease_until=pending.until, token=pending.token
            )
        failed = effects.last_failed(identity, scope.topic)
        if failed is not None:
            return EffectRecord(status="FAILED", last_error=failed.error)
        raise EffectNotFound(identity[3])


# Committed effects, also for deliveries whose lease ends


def cold_effects(turn: Turn, identity: Identity) -> list[MessageRef]:
    """The messages to read before `is_committed` can decide."""
    return turn.lookup.cold(_effect_refs(turn.state, identity))


def is_committed(turn: Turn, identity: Identity, topics: range) -> bool:
    """Whether the effect is committed, for a message that the effects of these topics count for."""
    return any(belongs(stored.topic, topics) for stored in _committed_effects(turn, identity))


def _committed_in(turn: Turn, identity: Identity, topics: range) -> StoredEffect | None:
    """The committed effect of one of these topics."""
    effects = _committed_effects(turn, identity)
    return next((stored for stored in effects if belongs(stored.topic, topics)), None)


def _committed_effects(turn: Turn, identity: Identity) -> list[StoredEffect]:
    """The committed effects of this identity, at most one a topic. A fingerprint alone does not count."""
    found: list[StoredEffect] = []
    for ref in _effect_refs(turn.state, identity):
        entry = turn.lookup.entry(ref)
        if entry is not None:
            stored = _decoder.decode(entry[PREFIX_BYTES:])
            if stored.identity == identity:
                found.append(stored)
    return found


def _effect_refs(state: State, identity: Identity) -> list[MessageRef]:
    return state.effects.committed.find(effect_print(identity))


def _source_refs(state: State, request: EffectsRequest) -> list[MessageRef]:
    """The message itself, where only its time tells which topic it was sent to."""
    source = getattr(request, "source", None)
    if source is None or source.topic == request.identity[1]:
        return []
    topic = state.topics.get(source.topic)
    return [MessageRef(topic.id, source.offset)] if topic is not None else []


def _scope(turn: Turn, request: BeginRequest | StatusRequest) -> EffectScope:
    name, source, now = request.identity[1], request.source, turn.now
    if source is not None and source.topic == name:
        return scope_of(turn.state, name, offset=source.offset, now=now)
    for ref in _source_refs(turn.state, request):
        entry = turn.lookup.entry(ref)
        if entry is not None:
            return scope_of(turn.state, name, produced_at=produced_at(entry), now=now)
    return scope_of(turn.state, name, now=now)


def _effects_topic(turn: Turn) -> Topic:
    state = turn.state
    if EFFECTS_TOPIC not in state.topics:
        options = TopicOptions(retention_ms=state.limits.effect_ttl_ms)
        turn.journal.add(TopicCreated(turn.now, state.next_topic, EFFECTS_TOPIC, 1, options))
    return state.topics[EFFECTS_TOPIC]


def identity_of(stored: StoredMessage, *, topic: str, group: str) -> Identity | None:
    """The identity of a message's effect in a group; None when it has no key."""
    envelope = stored.envelope
    if envelope is None or not envelope.idempotency_key:
        return None
    return (envelope.tenant_id or "", stored.requested_topic or topic, group, envelope.idempotency_key)


def _committed(stored: StoredEffect | None) -> CommittedEffect | None:
    if stored is None:
        return None
    return CommittedEffect(
        result=bytes(stored.result).decode() if isinstance(stored.result, msgspec.Raw) else None,
        token=stored.token,
    )
