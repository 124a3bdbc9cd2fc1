"""Making a tenant the owner of what it uses, or is given; durable before the request goes on.

The engine decides, so of two tenants that use a name at the same time one gets it, and the other is answered
as if it did not exist. An aggregate type is in no log: the event store is asked first whether it has events.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from driftq.core.decide.owners import OwnedName
from driftq.core.owners import OwnedKind
from driftq.errors import DriftQError
from driftq.http.api.params import check_tenant
from driftq.http.wire.exchange import Exchange
from driftq.server.events.service import EventQueryRequest
from driftq.server.requests import OwnRequest

if TYPE_CHECKING:
    from driftq.eventstore import EventStore

Then = Callable[[], None]


def become_owner(exchange: Exchange, things: Sequence[OwnedName], *, then: Then) -> None:
    """The first use of these names by the tenant of the request's key; replies with NotFound if it is not."""
    tenant = exchange.tenant
    assert tenant is not None
    types = [thing for thing in things if thing.kind is OwnedKind.AGGREGATE_TYPE]
    service = exchange.edge.broker.events

    def own() -> None:
        reply = exchange.answering(lambda _: then())
        exchange.edge.engine.submit(OwnRequest(things, tenant, reply))

    if not types:
        own()
        return
    if service is None:
        then()  # The handler says that there is no event store.
        return

    def query(store: EventStore) -> OwnedName | None:
        return next((thing for thing in types if store.has_type(thing.name)), None)

    def decided(used: OwnedName | Exception | None) -> None:
        if isinstance(used, DriftQError):
            exchange.reply_error(used)
        elif isinstance(used, Exception):
            exchange.failed(used)
        elif used is not None:
            exchange.reply_error(used.missing())  # It has events, and nobody owns it.
        else:
            own()

    service.read(EventQueryRequest(query, decided))


def give_to(exchange: Exchange, thing: OwnedName, tenant: str | None, *, then: Then) -> None:
    """The `tenant` field of a request that makes something: set the owner, then go on.

    With a tenant's key the guard has made the tenant its owner already, and another tenant is TenantMismatch.
    Without one, nobody or the given tenant owns it; replies with OwnedByAnother if it belongs to another.
    """
    check_tenant(tenant)
    wanted = exchange.require_tenant(tenant)
    if not wanted or exchange.tenant is not None:
        then()
        return
    reply = exchange.answering(lambda _: then())
    exchange.edge.engine.submit(OwnRequest([thing], wanted, reply, given=True))
