"""Schedules and tenants: a schedule belongs to the owner of its queue."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from driftq.core.owners import OwnedKind
from driftq.errors import ScheduleNotFound
from driftq.http.api.tenancy import NamedThing, NamesOf, Tenancy, queues_in
from driftq.http.wire.exchange import Exchange
from driftq.model.wire.fields import Request


def is_own(exchange: Exchange, name: str) -> bool:
    """Whether the request may reach the schedule; so it is where there is none of that name."""
    schedule = exchange.edge.engine.state.schedules.schedules.get(name)
    return schedule is None or exchange.owns(OwnedKind.QUEUE, schedule.terms.queue)


def _require_own(exchange: Exchange, name: str) -> None:
    if not is_own(exchange, name):
        raise ScheduleNotFound(name)


def _in_path(exchange: Exchange) -> Iterator[NamedThing]:
    _require_own(exchange, exchange.names["name"])
    yield from ()


def setting(kind: type[Request], name_of: Callable[[Exchange], str]) -> Tenancy:
    """Of a route that sets a schedule: its queue may be new, but no other tenant may have one of its name."""
    queues: NamesOf = queues_in(kind, "queue")

    def names(exchange: Exchange) -> Iterator[NamedThing]:
        yield from queues(exchange)
        _require_own(exchange, name_of(exchange))

    return Tenancy(names=names, makes=True)


OF_NAMED = Tenancy(names=_in_path)
"""Of a route with the schedule's name in its path."""
