"""Which identity an effect has, and how it begins: the part that must not guess.

A grant whose lease lapsed means that its holder crashed between begin and commit. A handler whose effect is
idempotent runs again. One whose effect is unknown does not: the caller gets `UnknownEffect`, and somebody has
to look and resolve it.
"""

from __future__ import annotations

import asyncio

from driftq.client import AlreadyCommitted, AsyncClient, AsyncDelivery, Begun, Held
from driftq.errors import EffectNotFound
from driftq.registry.handler import Effect
from driftq.registry.verdict import UnknownEffect

__all__ = ["UnknownEffect", "begin_effect", "effect_key"]

_POLL_FIRST_S = 0.05
_POLL_LONGEST_S = 1.0
OWNER_CHARACTERS_MAX = 200


def effect_key(delivery: AsyncDelivery, *, steps: bool) -> str:
    """The message's own key, or that of its step; empty when it has neither."""
    envelope = delivery.envelope
    if envelope.idempotency_key:
        return envelope.idempotency_key
    if steps and envelope.run_id and envelope.step_id:
        return f"step:{envelope.run_id}/{envelope.step_id}"
    return ""


async def begin_effect(
    client: AsyncClient, delivery: AsyncDelivery, key: str, effect: Effect
) -> Begun | AlreadyCommitted:
    """Ask until there is an answer that can be acted on; the caller keeps the message leased meanwhile.

    Raises UnknownEffect.
    """
    name = {
        "topic": delivery.requested_topic,
        "group": delivery.group,
        "idempotency_key": key,
        "tenant_id": delivery.envelope.tenant_id or "",
    }
    # No other delivery has this owner, so whatever is held by it was granted to us and the answer lost.
    owner = f"{delivery.owner[:OWNER_CHARACTERS_MAX]}/{delivery.offset}.{delivery.attempt}"
    pause_s = _POLL_FIRST_S
    while True:
        cut_off_by = await _other_holder(client, name, owner) if effect is Effect.UNKNOWN else None
        answer = await client.idempotency.begin(**name, owner=owner, lease_ms=delivery.lease_ms)
        if isinstance(answer, Begun) and cut_off_by is not None:
            # Its lease was over, by the server's clock, and nobody had ended it.
            await client.idempotency.extend(answer, lease_ms=1)
            raise UnknownEffect(f"begun by {cut_off_by}, which did not say how it ended")
        if not isinstance(answer, Held):
            return answer
        if answer.owner == owner:
            found = await client.idempotency.status(**name)
            if found.status == "PENDING" and found.owner == owner:
                return Begun(**name, owner=owner, token=found.token)
        await asyncio.sleep(pause_s)
        pause_s = min(pause_s * 2, _POLL_LONGEST_S)


async def _other_holder(client: AsyncClient, name: dict[str, str], owner: str) -> str | None:
    """Who else began this effect and has not ended it."""
    try:
        found = await client.idempotency.status(**name)
    except EffectNotFound:
        return None
    return found.owner if found.status == "PENDING" and found.owner != owner else None
