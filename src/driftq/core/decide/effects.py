"""Whether an effect may begin or end: one owner at a time, and a finished effect never begins again.

An effect counts for the topic that its message was sent to. When that topic is deleted and recreated, the
effects of the old topic's messages do not count for the new one's.
"""

import msgspec

from driftq.core.effects import ANY_TOPIC, LONG_TTL_MS, FailedEffect, Identity, PendingEffect
from driftq.core.records import CRASH_UNKNOWN, NO_TERMS, EffectBegun, EffectFailed, EffectTerms
from driftq.core.state import State
from driftq.errors import EffectHeld, EffectNotFound, EffectSuperseded, IdempotencyFull, InvalidArgument
from driftq.model.options.limits import LEASE_MS_MAX


class HeldEffect(msgspec.Struct, frozen=True):
    """Another owner holds the effect."""

    owner: str
    lease_until: int


class LapsedEffect(msgspec.Struct, frozen=True):
    """Its owner reported no outcome, and declared that it must not begin again before it is resolved."""

    owner: str
    lapsed_at: int


class CommittedEffect(msgspec.Struct, frozen=True):
    """The effect is committed; this is its result."""

    result: str | None
    token: int


class EffectScope(msgspec.Struct, frozen=True):
    """The topics in which the effect of a message is looked up, and the one it is stored under."""

    topics: range
    """The topic ids whose effects count."""
    topic: int
    """The topic id of an effect that begins now; 0 when no topic had the name."""


def scope_of(
    state: State, topic: str, *, produced_at: int | None = None, offset: int | None = None, now: int
) -> EffectScope:
    """The scope of a message that was sent to the topic of this name.

    The message belongs to the current topic of that name, unless it was produced before the topic was
    created, or its offset is below the topic's first: then it belongs to a deleted topic. Ids grow, so such a
    message uses the ids below, and any other the rest.
    """
    found = state.topics.get(topic)
    deleted = state.deleted_topics.find(topic, now=now)
    if found is None:
        return EffectScope(ANY_TOPIC, deleted.id if deleted is not None else 0)
    if (produced_at is not None and produced_at < found.created_at) or (
        offset is not None and offset < found.start_offset
    ):
        return EffectScope(range(found.id), deleted.id if deleted is not None else found.id - 1)
    return EffectScope(range(found.id, ANY_TOPIC.stop), found.id)


def decide_begin(
    state: State,
    identity: Identity,
    *,
    topic: int,
    owner: str,
    lease_ms: int,
    done: CommittedEffect | None,
    now: int,
    terms: EffectTerms = NO_TERMS,
) -> EffectBegun | HeldEffect | LapsedEffect | CommittedEffect:
    """Grant the effect to this owner, unless it is done (`done` was found in the log), held or unknown.

    `topic` is the id that its scope stores it under. Whether a lapsed grant is unknown is up to the terms
    under which it began, not to those of whoever begins now.
    """
    if not 1 <= lease_ms <= LEASE_MS_MAX:
        raise InvalidArgument("lease_ms", f"must be from 1 to {LEASE_MS_MAX}")
    if not 0 <= terms.ttl_ms <= LONG_TTL_MS:
        raise InvalidArgument("ttl_ms", f"must be from 1 to {LONG_TTL_MS}")
    if done is not None:
        return done
    effects = state.effects
    pending = effects.pending_for(identity, topic)
    if pending is not None and pending.until > now:
        return HeldEffect(owner=pending.owner, lease_until=pending.until)
    if pending is not None and is_unknown(pending, now):
        return LapsedEffect(owner=pending.owner, lapsed_at=pending.until)
    if pending is None and effects.count >= state.limits.idempotency_keys_max:
        raise IdempotencyFull(keys=effects.count)
    return EffectBegun(
        at=now,
        identity=identity,
        owner=owner,
        lease_ms=lease_ms,
        token=state.effects.next_token,
        topic=topic,
        terms=terms,
    )


def is_unknown(pending: PendingEffect, now: int) -> bool:
    """Whether nobody can tell if the effect happened, and its owner declared that this matters."""
    return pending.until <= now and pending.terms.crash == CRASH_UNKNOWN


def open_effect(state: State, identity: Identity, *, topic: int, now: int) -> PendingEffect | FailedEffect:
    """The effect that a decision from outside may end: lapsed or failed.

    Raises EffectHeld while an owner is at it, and EffectNotFound where it never began.
    """
    pending = state.effects.pending_for(identity, topic)
    if pending is not None:
        if pending.until > now:
            raise EffectHeld(identity[3], owner=pending.owner)
        return pending
    failed = state.effects.last_failed(identity, topic)
    if failed is None:
        raise EffectNotFound(identity[3])
    return failed


def require_pending(state: State, identity: Identity, *, owner: str, token: int) -> PendingEffect:
    """The grant of this token; raises when another one has taken its place."""
    pending = state.effects.pending_under(identity, token)
    if pending is None or pending.owner != owner:
        scope = scope_of(state, identity[1], now=state.last_at)
        held = pending or state.effects.pending_for(identity, scope.topic)
        raise EffectSuperseded(given=token, held=held.token if held is not None else None)
    return pending


def decide_fail(
    state: State, identity: Identity, *, owner: str, token: int, error: str, now: int
) -> EffectFailed | None:
    """The effect failed and may begin again; None when the failure is recorded already."""
    if state.effects.failed_under(identity, token) is not None:
        return None
    pending = require_pending(state, identity, owner=owner, token=token)
    return EffectFailed(at=now, identity=identity, error=error, topic=pending.topic)
