"""Messages that a tenant's key produces: only to the tenant's topics, and with the tenant's id."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, cast

import msgspec

from driftq.core.owners import OwnedKind
from driftq.errors import TopicNotFound
from driftq.http.wire.exchange import Exchange
from driftq.model import Message
from driftq.model.envelope import EnvelopeBody
from driftq.server.produce.prepare import Produced


def topics_of(message: Produced) -> Iterable[str]:
    """The topic of the message, and the one that its envelope sends it to."""
    envelope = message.envelope
    target = envelope.target_topic if envelope is not None else None
    return (message.topic,) if target is None else (message.topic, target)


def of_tenant(exchange: Exchange, message: Produced) -> Produced:
    """The message as its tenant's; raises TopicNotFound and TenantMismatch."""
    for topic in topics_of(message):
        if not exchange.owns(OwnedKind.TOPIC, topic):
            raise TopicNotFound(topic)
    envelope: Any = with_tenant(exchange, message.envelope)
    if envelope is message.envelope:
        return message
    return cast(Produced, msgspec.structs.replace(cast(msgspec.Struct, message), envelope=envelope))


def with_tenant(exchange: Exchange, envelope: EnvelopeBody | None) -> EnvelopeBody | None:
    """The envelope with the tenant of the request's key; raises TenantMismatch if it names another."""
    given = envelope.tenant_id if envelope is not None else None
    tenant = exchange.require_tenant(given)
    if tenant == given:
        return envelope
    if envelope is None:
        return EnvelopeBody(tenant_id=tenant)
    return msgspec.structs.replace(envelope, tenant_id=tenant)


def within_tenant(exchange: Exchange, routed: Message, unrouted: Message) -> Message:
    """The routed message, or the other where the router sent it out of what its tenant owns.

    As with every decision that cannot be followed, the message goes on unrouted.
    """
    if exchange.tenant is None or all(
        exchange.owns(OwnedKind.TOPIC, topic) for topic in topics_of(cast(Produced, routed))
    ):
        return routed
    exchange.edge.counters.router_failures += 1
    return unrouted
