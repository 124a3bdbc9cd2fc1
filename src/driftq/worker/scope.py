"""Where it is on record that an effect has begun and how it ended: the broker's memory, or a registry.

A scope answers `begin` with a grant, or with what the effect gave when it was done before. It never guesses:
where it is unknown whether an effect happened it raises `UnknownEffect`, and an operator has to check.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from driftq.client import AlreadyCommitted
from driftq.made_up_key import is_made_up
from driftq.model import Envelope

if TYPE_CHECKING:
    from driftq.client.consuming.delivery import Received
    from driftq.worker.leases import LeasedDelivery

logger = logging.getLogger("driftq.worker")

POLL_FIRST_S = 0.05
POLL_LONGEST_S = 1.0


class EffectGrant(Protocol):
    """The right to perform one effect, under a lease. What it is refused it raises as FailedPrecondition."""

    @property
    def token(self) -> int:
        """Grows with every grant of the same effect."""

    async def extend(self) -> None:
        """Renew the lease."""

    async def commit(self, result: Any) -> None:
        """The effect has happened, and gave this."""

    async def fail(self, error: str) -> None:
        """It has not happened: the next worker that begins may perform it."""

    async def leave_unknown(self, error: str) -> None:
        """Nobody knows whether it happened: it stays open until an operator resolves it."""


class Scope(Protocol):
    """One memory of effects."""

    async def begin(self, leased: LeasedDelivery, key: str) -> EffectGrant | AlreadyCommitted:
        """Ask until there is an answer that can be acted on; the message stays leased meanwhile.

        Raises UnknownEffect, and NoCurrentDelivery when the message is lost on the way.
        """


def effect_key(envelope: Envelope, *, steps: bool) -> str:
    """What the effect is known by; empty when there is nothing.

    The caller's key comes first, then, for a handler of steps, run and step. A key that a client made up is
    the last resort: it tells two deliveries of one message apart from two messages, and no more than that.
    """
    key = envelope.idempotency_key or ""
    if steps and envelope.run_id and envelope.step_id and (not key or is_made_up(key)):
        return f"step:{envelope.run_id}/{envelope.step_id}"
    return key


def effect_id(delivery: Received, key: str) -> str:
    """What the effect is called outside, the same at every attempt: its key, else the message's place."""
    if not key:
        return msgspec.json.encode([delivery.topic, delivery.partition, delivery.offset]).decode()
    tenant = delivery.envelope.tenant_id or ""
    return msgspec.json.encode([tenant, delivery.requested_topic, key]).decode()


def stored_result(result: Any) -> msgspec.Raw | msgspec.UnsetType:
    """What is kept for duplicates; what JSON cannot say is left out, because the effect has happened."""
    if result is None:
        return msgspec.UNSET
    try:
        return msgspec.Raw(msgspec.json.encode(result))
    except (TypeError, ValueError, RecursionError, OverflowError) as wrong:
        logger.warning("a result was not stored because it is not JSON: %s", wrong)
        return msgspec.UNSET
