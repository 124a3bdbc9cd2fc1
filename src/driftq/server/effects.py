"""The consumers' side of idempotency in the engine's turn: begin, commit, fail, extend, status.

A committed effect is a message of an internal topic that holds the identity and the result.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import msgspec

from driftq.core.decide.effects import Committed, Held, decide_begin, decide_fail, require_pending
from driftq.core.effects import EFFECTS_TOPIC, Identity, effect_print
from driftq.core.jobs.decide import check_lease
from driftq.core.keys import Claim
from driftq.core.records import EffectBegun, EffectCommitted, TopicCreated
from driftq.core.state import State, Topic
from driftq.errors import DriftQError, EffectNotFound, NotConfirmed
from driftq.model import StoredMessage, TopicOptions
from driftq.server.entry import PREFIX_BYTES, encode_text, encode_time
from driftq.server.journal import Journal
from driftq.server.recaller import Recaller
from driftq.server.requests import Reply

Replies = list[tuple[Reply, Any]]


class StoredEffect(msgspec.Struct, frozen=True):
    """What is kept of an effect that is done."""

    identity: Identity
    owner: str
    token: int
    result: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET


@dataclass(frozen=True, slots=True)
class BeginRequest:
    """Answered by EffectBegun, Held or Committed."""

    identity: Identity
    owner: str
    lease_ms: int
    reply: Reply


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


class EffectStatus(msgspec.Struct, frozen=True, omit_defaults=True):
    status: str
    owner: str | None = None
    lease_until: int | None = None
    last_error: str | None = None
    result: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    token: int | None = None
    """Of a grant under way: its owner, whose answer was lost, goes on with it."""


EffectAsk = BeginRequest | CommitRequest | FailRequest | ExtendEffectRequest | StatusRequest

_decoder = msgspec.json.Decoder(StoredEffect)


class EffectDesk:
    """The effects' part of a turn."""

    def __init__(
        self,
        journal: Journal,
        recaller: Recaller,
        *,
        again: Callable[[EffectAsk, NotConfirmed | None], None],
    ) -> None:
        self._journal = journal
        self._recaller = recaller
        self._again = again
        self.asked: list[EffectAsk] = []

    @property
    def _state(self) -> State:
        return self._journal.state

    def turn(self, replies: Replies, now: int) -> None:
        asked, self.asked = self.asked, []
        self._state.effects.expire(now)
        for request in asked:
            cold = self._recaller.cold(self._claims(request.identity))
            if cold:
                self._recaller.fetch(cold, lambda error, request=request: self._again(request, error))  # type: ignore[misc]
                continue
            try:
                answer = self._decide(request, now)
            except DriftQError as refused:
                answer = refused
            replies.append((request.reply, answer))

    def cold(self, identity: Identity) -> list[Claim]:
        """What has to be read before `is_committed` can tell."""
        return self._recaller.cold(self._claims(identity))

    def is_committed(self, identity: Identity) -> bool:
        return self._done(identity) is not None

    def _claims(self, identity: Identity) -> list[Claim]:
        return self._state.effects.committed.find(effect_print(identity))

    def _done(self, identity: Identity) -> StoredEffect | None:
        """The finished effect of this identity. A fingerprint alone is not believed."""
        for claim in self._claims(identity):
            entry = self._recaller.entry(claim)
            if entry is not None:
                stored = _decoder.decode(entry[PREFIX_BYTES:])
                if stored.identity == identity:
                    return stored
        return None

    def _decide(self, request: EffectAsk, now: int) -> Any:
        done = self._done(request.identity)
        match request:
            case BeginRequest():
                return self._begin(request, done, now)
            case CommitRequest():
                return self._commit(request, done, now)
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
                return self._status(request.identity, done)
        return None

    def _begin(
        self, request: BeginRequest, done: StoredEffect | None, now: int
    ) -> EffectBegun | Held | Committed:
        decided = decide_begin(
            self._state,
            request.identity,
            owner=request.owner,
            lease_ms=request.lease_ms,
            done=_committed(done),
            now=now,
        )
        if isinstance(decided, EffectBegun):
            self._journal.add(decided)
        return decided

    def _commit(self, request: CommitRequest, done: StoredEffect | None, now: int) -> None:
        if done is not None and done.token == request.token and done.owner == request.owner:
            return  # Said before.
        require_pending(self._state, request.identity, owner=request.owner, token=request.token)
        stored = StoredEffect(
            identity=request.identity,
            owner=request.owner,
            token=request.token,
            result=msgspec.Raw(request.result) if request.result is not None else msgspec.UNSET,
        )
        self._journal.add_texts(
            self._topic(now),
            [encode_text(msgspec.json.encode(stored), encode_time(now))],
            also=EffectCommitted(at=now, identity=request.identity),
            now=now,
            fingerprints=[effect_print(request.identity)],
        )

    def _extend(self, request: ExtendEffectRequest, now: int) -> None:
        """The same grant, for longer."""
        check_lease(request.lease_ms)
        require_pending(self._state, request.identity, owner=request.owner, token=request.token)
        self._journal.add(
            EffectBegun(
                at=now,
                identity=request.identity,
                owner=request.owner,
                lease_ms=request.lease_ms,
                token=request.token,
            )
        )

    def _status(self, identity: Identity, done: StoredEffect | None) -> EffectStatus:
        if done is not None:
            return EffectStatus(status="COMMITTED", owner=done.owner, result=done.result)
        effects = self._state.effects
        pending = effects.pending.get(identity)
        if pending is not None:
            return EffectStatus(
                status="PENDING", owner=pending.owner, lease_until=pending.until, token=pending.token
            )
        failed = effects.failed.get(identity)
        if failed is not None:
            return EffectStatus(status="FAILED", last_error=failed.error)
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


def _committed(done: StoredEffect | None) -> Committed | None:
    if done is None:
        return None
    return Committed(
        result=bytes(done.result).decode() if isinstance(done.result, msgspec.Raw) else None,
        token=done.token,
    )
