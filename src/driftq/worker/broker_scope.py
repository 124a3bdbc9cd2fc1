"""Effects on the broker's record, over `/v1/idempotency`.

A grant whose lease lapsed means that its holder crashed between begin and commit. A handler whose effect is
idempotent runs again. One whose effect is unknown does not.
"""

from __future__ import annotations

import asyncio
from typing import Any

from driftq.client import AlreadyCommitted, AsyncClient, AsyncIdempotency, Begun, Held, LeftUnknown
from driftq.errors import EffectNotFound, NoCurrentDelivery
from driftq.model.backoff import doubled
from driftq.registry.handler import Effect
from driftq.registry.verdict import UnknownEffect
from driftq.worker.leases import LeasedDelivery
from driftq.worker.scope import POLL_FIRST_S, POLL_LONGEST_S, EffectGrant, stored_result

OWNER_CHARACTERS_MAX = 200


class BrokerGrant:
    """What the broker granted."""

    def __init__(self, effects: AsyncIdempotency, grant: Begun, *, lease_ms: int) -> None:
        self._effects = effects
        self._grant = grant
        self._lease_ms = lease_ms
        self.token = grant.token

    async def extend(self) -> None:
        await self._effects.extend(self._grant, lease_ms=self._lease_ms)

    async def commit(self, result: Any) -> None:
        await self._effects.mark_success(self._grant, result=stored_result(result))

    async def fail(self, error: str) -> None:
        await self._effects.mark_failure(self._grant, error=error)

    async def leave_unknown(self, error: str) -> None:
        """As a crash would: begun, not ended, and with a lease that is over."""
        await self._effects.extend(self._grant, lease_ms=1)


class BrokerScope:
    """Implements `Scope`."""

    def __init__(self, client: AsyncClient, effect: Effect) -> None:
        self._effects = client.idempotency
        self._effect = effect

    async def begin(self, leased: LeasedDelivery, key: str) -> EffectGrant | AlreadyCommitted:
        delivery = leased.delivery
        name: dict[str, Any] = {
            "topic": delivery.requested_topic,
            "group": delivery.group,
            "idempotency_key": key,
            "tenant_id": delivery.envelope.tenant_id or "",
        }
        message = {"offset": delivery.offset, "source_topic": delivery.topic}
        # No other delivery has this owner, so whatever is held by it was granted to us and the answer lost.
        owner = f"{delivery.owner[:OWNER_CHARACTERS_MAX]}/{delivery.offset}.{delivery.attempt}"
        pause_s = POLL_FIRST_S
        while not leased.lost:
            answer = await self._ask(name, message, owner, delivery.lease_ms)
            if isinstance(answer, Begun):
                return BrokerGrant(self._effects, answer, lease_ms=delivery.lease_ms)
            if isinstance(answer, AlreadyCommitted):
                return answer
            await asyncio.sleep(pause_s)
            pause_s = doubled(pause_s, cap=POLL_LONGEST_S)
        raise NoCurrentDelivery

    async def _ask(
        self, name: dict[str, Any], message: dict[str, Any], owner: str, lease_ms: int
    ) -> Begun | AlreadyCommitted | Held:
        unknown = self._effect is Effect.UNKNOWN
        cut_off_by = await self._other_holder(name | message, owner) if unknown else None
        answer = await self._effects.begin(**name, **message, owner=owner, lease_ms=lease_ms)
        if isinstance(answer, LeftUnknown):
            raise UnknownEffect(f"begun by {answer.owner}, which did not report an outcome")
        if isinstance(answer, Begun) and cut_off_by is not None:
            # Its lease had expired by the server's clock, and no owner had ended it.
            await self._effects.extend(answer, lease_ms=1)
            raise UnknownEffect(f"begun by {cut_off_by}, which did not report an outcome")
        if isinstance(answer, Held) and answer.owner == owner:
            found = await self._effects.status(**name, **message)
            if found.status == "PENDING" and found.owner == owner:
                return Begun(**name, owner=owner, token=found.token)
        return answer

    async def _other_holder(self, name: dict[str, Any], owner: str) -> str | None:
        """Who else began this effect and has not ended it."""
        try:
            found = await self._effects.status(**name)
        except EffectNotFound:
            return None
        return found.owner if found.status == "PENDING" and found.owner != owner else None
