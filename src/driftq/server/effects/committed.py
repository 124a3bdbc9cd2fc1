"""Committed effects as messages of an internal topic, which hold the identity and the result.

Also used for deliveries whose lease ends: one whose effect is committed is settled.
"""

from __future__ import annotations

import msgspec

from driftq.core.effects import (
    EFFECTS_TOPIC,
    LONG_EFFECTS_TOPIC,
    LONG_TTL_MS,
    FailedEffect,
    Identity,
    PendingEffect,
    belongs,
    effect_print,
    step_of,
)
from driftq.core.keys import MessageRef
from driftq.core.records import EffectCommitted, TopicCreated
from driftq.core.state import State, Topic
from driftq.model import StoredMessage, TopicOptions
from driftq.server.turn import Turn
from driftq.storage.entry import PREFIX_BYTES, encode_text, encode_time


class StoredEffect(msgspec.Struct, frozen=True):
    """The stored form of a committed effect."""

    identity: Identity
    owner: str
    token: int
    result: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    topic: int = 0
    """The id of the requested topic; 0 when no topic had that name, or from before ids were kept."""
    until: int = 0
    """When the result stops counting; 0 is when the message is dropped."""
    parent: str = ""
    attempt: int = 1


_decoder = msgspec.json.Decoder(StoredEffect)


def decode_effect(entry: bytes) -> StoredEffect:
    """The effect in the stored form of a message."""
    return _decoder.decode(entry[PREFIX_BYTES:])


def store_effect(
    turn: Turn,
    identity: Identity,
    effect: PendingEffect | FailedEffect,
    *,
    owner: str,
    result: bytes | None,
) -> None:
    """Commit an effect that has begun, for as long as its terms say."""
    ttl_ms = effect.terms.ttl_ms
    topic = _effects_topic(turn, long=ttl_ms > turn.state.effects.ttl_ms)
    stored = StoredEffect(
        identity=identity,
        owner=owner,
        token=effect.token,
        result=msgspec.Raw(result) if result is not None else msgspec.UNSET,
        topic=effect.topic,
        until=turn.now + ttl_ms if ttl_ms else 0,
        parent=effect.terms.parent,
        attempt=effect.attempt,
    )
    committed = EffectCommitted(
        at=turn.now,
        identity=identity,
        topic=effect.topic,
        stored_in=topic.id if step_of(identity) is not None else 0,
    )
    turn.journal.add_texts(
        topic,
        [encode_text(msgspec.json.encode(stored), encode_time(turn.now))],
        also=committed,
        now=turn.now,
        fingerprints=[effect_print(identity)],
    )


def is_over(stored: StoredEffect, now: int) -> bool:
    """Whether the result has outlived its time."""
    return 0 < stored.until <= now


def cold_effects(turn: Turn, identity: Identity) -> list[MessageRef]:
    """The messages to read before `is_committed` can decide."""
    return turn.lookup.cold(effect_refs(turn.state, identity))


def is_committed(turn: Turn, identity: Identity, topics: range) -> bool:
    """Whether the effect is committed, for a message that the effects of these topics count for."""
    return any(belongs(stored.topic, topics) for stored in committed_effects(turn, identity))


def committed_in(turn: Turn, identity: Identity, topics: range) -> StoredEffect | None:
    """The committed effect of one of these topics."""
    effects = committed_effects(turn, identity)
    return next((stored for stored in effects if belongs(stored.topic, topics)), None)


def committed_effects(turn: Turn, identity: Identity) -> list[StoredEffect]:
    """The committed effects of this identity, at most one a topic. A fingerprint alone does not count."""
    found: list[StoredEffect] = []
    for ref in effect_refs(turn.state, identity):
        entry = turn.lookup.entry(ref)
        if entry is not None:
            stored = decode_effect(entry)
            if stored.identity == identity and not is_over(stored, turn.now):
                found.append(stored)
    return found


def effect_refs(state: State, identity: Identity) -> list[MessageRef]:
    print_ = effect_print(identity)
    return [*state.effects.committed.find(print_), *state.effects.long.find(print_)]


def _effects_topic(turn: Turn, *, long: bool) -> Topic:
    state, name = turn.state, LONG_EFFECTS_TOPIC if long else EFFECTS_TOPIC
    if name not in state.topics:
        options = TopicOptions(retention_ms=LONG_TTL_MS if long else state.limits.effect_ttl_ms)
        turn.journal.add(TopicCreated(turn.now, state.next_topic, name, 1, options))
    return state.topics[name]


def identity_of(stored: StoredMessage, *, topic: str, group: str) -> Identity | None:
    """The identity of a message's effect in a group; None when it has no key."""
    envelope = stored.envelope
    if envelope is None or not envelope.idempotency_key:
        return None
    return (envelope.tenant_id or "", stored.requested_topic or topic, group, envelope.idempotency_key)
