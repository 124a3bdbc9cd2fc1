"""The consumers' side of idempotency in the engine's turn: begin, commit, fail, extend, status.

A committed effect is a message of an internal topic that holds the identity and the result.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

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
from driftq.core.jobs.decide import check_lease
from driftq.core.keys import MessageRef
from driftq.core.records import EffectBegun, EffectCommitted, TopicCreated
from driftq.core.state import State, Topic
from driftq.errors import DriftQError, EffectNotFound, NotConfirmed
from driftq.model import StoredMessage, TopicOptions
from driftq.server.lookup import MessageLookup
from driftq.server.requests import Reply
from driftq.storage.entry import PREFIX_BYTES, encode_text, encode_time, produced_at
from driftq.storage.journal import Journal

Replies = list[tuple[Reply, Any]]


class StoredEffect(msgspec.Struct, frozen=True):
    """What is kept of an effect that is done."""

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
    """Answered by EffectBegun, Held or Committed. Without a source, it is for the topic that has the name."""

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
    """Answered by an EffectStatus, or EffectNotFound."""

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
    """Of a grant under way: its owner, whose answer was lost, goes on with it."""


EffectAsk = BeginRequest | CommitRequest | FailRequest | ExtendEffectRequest | StatusRequest

_decoder = msgspec.json.Decoder(StoredEffect)


class EffectsStage:
    """The effects' part of a turn."""

    def __init__(
        self,
        journal: Journal,
        lookup: MessageLookup,
        *,
        again: Callable[[EffectAsk, NotConfirmed | None], None],
    ) -> None:
        self._journal = journal
        self._lookup = lookup
        self._again = again
        self.asked: list[EffectAsk] = []

    @property
    def _state(self) -> State:
        return self._journal.state

    def turn(self, replies: Replies, now: int) -> None:
        asked, self.asked = self.asked, []
        self._state.effects.expire(now)
        for request in asked:
            cold = self._lookup.cold([*self._claims(request.identity), *self._rerouted(request)])
            if cold:
                self._lookup.fetch(cold, lambda error, request=request: self._again(request, error))  # type: ignore[misc]
                continue
            try:
                answer = self._decide(request, now)
            except DriftQError as refused:
                answer = refused
            replies.append((request.reply, answer))

    def cold(self, identity: Identity) -> list[MessageRef]:
        """What has to be read before `is_committed` can tell."""
        return self._lookup.cold(self._claims(identity))

    def is_committed(self, identity: Identity, topics: range) -> bool:
        """Whether the effect is done, for a message that the effects of these topics count for."""
        return any(belongs(one.topic, topics) for one in self._finished(identity))

    def _claims(self, identity: Identity) -> list[MessageRef]:
        return self._state.effects.committed.find(effect_print(identity))

    def _finished(self, identity: Identity) -> list[StoredEffect]:
        """The finished effects of this identity, at most one a topic. A fingerprint alone is not believed."""
        found: list[StoredEffect] = []
        for claim in self._claims(identity):
            entry = self._lookup.entry(claim)
            if entry is not None:
                stored = _decoder.decode(entry[PREFIX_BYTES:])
                if stored.identity == identity:
                    found.append(stored)
        return found

    def _done(self, identity: Identity, topics: range) -> StoredEffect | None:
        """The finished effect of one of these topics."""
        return next((one for one in self._finished(identity) if belongs(one.topic, topics)), None)

    def _rerouted(self, request: EffectAsk) -> list[MessageRef]:
        """The message itself, where only its time tells which topic it was sent to."""
        source = getattr(request, "source", None)
        if source is None or source.topic == request.identity[1]:
            return []
        topic = self._state.topics.get(source.topic)
        return [MessageRef(topic.id, source.offset)] if topic is not None else []

    def _scope(self, request: BeginRequest | StatusRequest, now: int) -> EffectScope:
        name, source = request.identity[1], request.source
        if source is not None and source.topic == name:
            return scope_of(self._state, name, offset=source.offset, now=now)
        for claim in self._rerouted(request):
            entry = self._lookup.entry(claim)
            if entry is not None:
                return scope_of(self._state, name, produced_at=produced_at(entry), now=now)
        return scope_of(self._state, name, now=now)

    def _decide(self, request: EffectAsk, now: int) -> Any:
        match request:
            case BeginRequest():
                return self._begin(request, now)
            case CommitRequest():
                return self._commit(request, now)
            case FailRequest():
                record = decide_fail(
                    self._state,
                    request.identity,
                    owner=request.owner,
                    token=request.token,
                    error=request.error,
                    now=now,
                )
                if record is not None:
                    self._journal.add(record)
            case ExtendEffectRequest():
                self._extend(request, now)
            case StatusRequest():
                return self._status(request.identity, self._scope(request, now))
        return None

    def _begin(self, request: BeginRequest, now: int) -> EffectBegun | HeldEffect | CommittedEffect:
        scope = self._scope(request, now)
        decided = decide_begin(
            self._state,
            request.identity,
            topic=scope.topic,
            owner=request.owner,
            lease_ms=request.lease_ms,
            done=_committed(self._done(request.identity, scope.topics)),
            now=now,
        )
        if isinstance(decided, EffectBegun):
            self._journal.add(decided)
        return decided

    def _commit(self, request: CommitRequest, now: int) -> None:
        for done in self._finished(request.identity):
            if done.token == request.token and done.owner == request.owner:
                return  # Said before.
        pending = require_pending(self._state, request.identity, owner=request.owner, token=request.token)
        stored = StoredEffect(
            identity=request.identity,
            owner=request.owner,
            token=request.token,
            result=msgspec.Raw(request.result) if request.result is not None else msgspec.UNSET,
            topic=pending.topic,
        )
        self._journal.add_texts(
            self._topic(now),
            [encode_text(msgspec.json.encode(stored), encode_time(now))],
            also=EffectCommitted(at=now, identity=request.identity, topic=pending.topic),
            now=now,
            fingerprints=[effect_print(request.identity)],
        )

    def _extend(self, request: ExtendEffectRequest, now: int) -> None:
        """The same grant, for longer."""
        check_lease(request.lease_ms)
        pending = require_pending(self._state, request.identity, owner=request.owner, token=request.token)
        self._journal.add(
            EffectBegun(
                at=now,
                identity=request.identity,
                owner=request.owner,
                lease_ms=request.lease_ms,
                token=request.token,
                topic=pending.topic,
            )
        )

    def _status(self, identity: Identity, scope: EffectScope) -> EffectRecord:
        done = self._done(identity, scope.topics)
        if done is not None:
            return EffectRecord(status="COMMITTED", owner=done.owner, result=done.result)
        effects = self._state.effects
        pending = effects.held(identity, scope.topic)
        if pending is not None:
            return EffectRecord(
                status="PENDING", owner=pending.owner, lease_until=pending.until, token=pending.token
            )
        failed = effects.last_failed(identity, scope.topic)
        if failed is not None:
            return EffectRecord(status="FAILED", last_error=failed.error)
        raise EffectNotFound(identity[3])

    def _topic(self, now: int) -> Topic:
        state = self._state
        if EFFECTS_TOPIC not in state.topics:
            options = TopicOptions(retention_ms=state.limits.effect_ttl_ms)
            self._journal.add(TopicCreated(now, state.next_topic, EFFECTS_TOPIC, 1, options))
        return state.topics[EFFECTS_TOPIC]


def identity_of(stored: StoredMessage, *, topic: str, group: str) -> Identity | None:
    """The identity of a message's effect in a group; None when it has no key."""
    envelope = stored.envelope
    if envelope is None or not envelope.idempotency_key:
        return None
    return (envelope.tenant_id or "", stored.requested_topic or topic, group, envelope.idempotency_key)


def _committed(done: StoredEffect | None) -> CommittedEffect | None:
    if done is None:
        return None
    return CommittedEffect(
        result=bytes(done.result).decode() if isinstance(done.result, msgspec.Raw) else None,
        token=done.token,
    )
