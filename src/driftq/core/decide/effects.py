"""May this effect begin, and may it end: one owner at a time, and a finished effect never begins again.

An effect counts for the topic that its message was sent to. When that topic is deleted and one of its name is
made, the effects of the old topic's messages say nothing about the new one's.
"""

import msgspec

from driftq.core.effects import ANY_TOPIC, Identity, PendingEffect
from driftq.core.records import EffectBegun, EffectFailed
from driftq.core.state import State
from driftq.errors import EffectSuperseded, IdempotencyFull, InvalidArgument
from driftq.model.options.limits import LEASE_MS_MAX


class HeldEffect(msgspec.Struct, frozen=True):
    """Somebody else is at it."""

    owner: str
    lease_until: int


class CommittedEffect(msgspec.Struct, frozen=True):
    """It was done before; this is what it gave."""

    result: str | None
    token: int


class EffectScope(msgspec.Struct, frozen=True):
    """Where the effect of a message is looked for, and kept."""

    topics: range
    """The topic ids whose effects count."""
    topic: int
    """The id under which one that begins now is kept; 0 when no topic had the name."""


def scope_of(
    state: State, topic: str, *, produced_at: int | None = None, offset: int | None = None, now: int
) -> EffectScope:
    """The scope of a message that was sent to the topic of this name.

    The message belongs to the topic that has the name, unless it was produced before that was made, or its
    offset in it lies below the first: then it is of one that was deleted. Ids grow, so such a message looks
    at the ids below, and any other at the rest.
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
) -> EffectBegun | HeldEffect | CommittedEffect:
    """Grant the effect to this owner, unless it is done (`done` was found in the log) or held.

    `topic` is the id that its scope keeps it under.
    """
    if not 1 <= lease_ms <= LEASE_MS_MAX:
        raise InvalidArgument("lease_ms", f"must be from 1 to {LEASE_MS_MAX}")
    if done is not None:
        return done
    effects = state.effects
    pending = effects.pending_for(identity, topic)
    if pending is not None and pending.until > now:
        return HeldEffect(owner=pending.owner, lease_until=pending.until)
    if pending is None and len(effects.committed) + len(effects.pending) >= state.limits.idempotency_keys_max:
        raise IdempotencyFull(keys=len(effects.committed) + len(effects.pending))
    return EffectBegun(
        at=now,
        identity=identity,
        owner=owner,
        lease_ms=lease_ms,
        token=state.effects.next_token,
        topic=topic,
    )


def require_pending(state: State, identity: Identity, *, owner: str, token: int) -> PendingEffect:
    """The grant that this token stands for; refused when another one has taken its place."""
    pending = state.effects.pending_under(identity, token)
    if pending is None or pending.owner != owner:
        scope = scope_of(state, identity[1], now=state.last_at)
        held = pending or state.effects.pending_for(identity, scope.topic)
        raise EffectSuperseded(given=token, held=held.token if held is not None else None)
    return pending


def decide_fail(
    state: State, identity: Identity, *, owner: str, token: int, error: str, now: int
) -> EffectFailed | None:
    """The effect failed and may begin again; None when this was said before."""
    if state.effects.failed_under(identity, token) is not None:
        return None
    pending = require_pending(state, identity, owner=owner, token=token)
    return EffectFailed(at=now, identity=identity, error=error, topic=pending.topic)
