"""What a tenant's key reaches through a route.

A route is closed to tenants' keys unless it says which owned things a request names (`Tenancy.names`), or
that its handler leaves out what the tenant does not own. For a route that names things in its path, or that
declares its topics, this module derives the names, so that a new route is closed rather than forgotten.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar, get_args

import msgspec

from driftq.core.decide.owners import OwnedName
from driftq.core.jobs.table import job_offset
from driftq.core.owners import OwnedKind
from driftq.errors import JobNotFound, NotFound, TopicNotFound
from driftq.http.api.params import Form
from driftq.http.api.topic_access import every_topic
from driftq.http.wire.exchange import Exchange
from driftq.model.topic import DEAD_LETTER_PREFIX
from driftq.model.wire.fields import Request

if TYPE_CHECKING:
    from driftq.http.api.route import Route

_R = TypeVar("_R", bound=Request)
_PARAMETER = re.compile(r"\{(\w+)\}")
_IN_PATH = frozenset({"topic", "queue", "job_id", "group", "offset"})
"""Parameters whose owner is known: groups and offsets belong to the topic before them."""
_NAMING = frozenset(
    {
        "topic",
        "topics",
        "source_topic",
        "target_topic",
        "queue",
        "queues",
        "job_id",
        "aggregate_type",
        "run_id",
    }
)
"""Fields of requests that name owned things."""


class NamedThing(NamedTuple):
    """Something that a request names, and the reply when the key's tenant does not own it."""

    thing: OwnedName
    missing: NotFound


NamesOf = Callable[[Exchange], Iterable[NamedThing]]


@dataclass(frozen=True, slots=True)
class Tenancy:
    """How a tenant's key is limited: the check is the guard's, the filter of a list the handler's."""

    names: NamesOf | None = None
    """What a request names; the tenant must own each."""
    makes: bool = False
    """A name that nobody has used becomes the tenant's."""
    shared: bool = False
    """The route shows the same to everybody, and nothing that is owned."""


SHARED = Tenancy(shared=True)
OWN = Tenancy()
"""The handler itself checks the names, or leaves out what the tenant does not own."""


def topic_thing(name: str) -> NamedThing:
    thing = OwnedName(OwnedKind.TOPIC, name)
    return NamedThing(thing, thing.missing())


def queue_thing(name: str) -> NamedThing:
    thing = OwnedName(OwnedKind.QUEUE, name)
    return NamedThing(thing, thing.missing())


def type_thing(name: str) -> NamedThing:
    thing = OwnedName(OwnedKind.AGGREGATE_TYPE, name)
    return NamedThing(thing, thing.missing())


def job_things(exchange: Exchange, job: str) -> Iterator[NamedThing]:
    """The queue of a job. A job that is not in memory names nothing: the handler finds it, or does not."""
    jobs = exchange.edge.engine.state.jobs
    offset = job_offset(job)
    if offset is not None and jobs.slot(offset) is not None:
        yield NamedThing(OwnedName(OwnedKind.QUEUE, jobs.queue_of(offset)), JobNotFound(job))


def topic_in_path(exchange: Exchange) -> Iterator[NamedThing]:
    yield topic_thing(exchange.topic)


def dead_letters_in_path(exchange: Exchange) -> Iterator[NamedThing]:
    """The dead-letter topic of the topic in the path, which may outlive the topic."""
    yield topic_thing(DEAD_LETTER_PREFIX + exchange.topic)


def new_dead_letters_in_path(exchange: Exchange) -> Iterator[NamedThing]:
    """The topic whose dead letters are stored; where it is deleted, those that it left behind."""
    missing = TopicNotFound(exchange.topic)
    for name in (exchange.topic, DEAD_LETTER_PREFIX + exchange.topic):
        if name in exchange.edge.engine.state.topics or name != exchange.topic:
            yield NamedThing(OwnedName(OwnedKind.TOPIC, name), missing)
            return


def existing_topics(kind: type[_R], *fields: str) -> NamesOf:
    """The topics in these fields of a request, where there are topics of these names."""
    form = Form(kind)

    def names(exchange: Exchange) -> Iterator[NamedThing]:
        asked = form.read(exchange.body, exchange.query)
        for field in fields:
            name = getattr(asked, field, None)
            if name is not None and name in exchange.edge.engine.state.topics:
                yield topic_thing(name)

    return names


def queues_in(kind: type[_R], field: str) -> NamesOf:
    """The queue, or queues, in a field of a request; none where it is left out."""
    form = Form(kind)

    def names(exchange: Exchange) -> Iterator[NamedThing]:
        given = getattr(form.read(exchange.body, exchange.query), field)
        for name in [given] if isinstance(given, str) else given or []:
            yield queue_thing(name)

    return names


def aggregate_type_in(kind: type[_R]) -> NamesOf:
    form = Form(kind)

    def names(exchange: Exchange) -> Iterator[NamedThing]:
        asked: Any = form.read(exchange.body, exchange.query)
        yield type_thing(asked.aggregate_type)

    return names


def tenancy_of(route: Route) -> Tenancy | None:
    """What the route says, else what its path and its topics say; None: no tenant's key."""
    if route.tenants is not None:
        return route.tenants
    if route.roles is None:
        return SHARED
    in_path = set(_PARAMETER.findall(route.path))
    fields = {*_fields(route.query), *_fields(route.body), *_fields(route.lines)}
    named = in_path & {"topic", "queue", "job_id"}
    declared = route.topics is not None
    if not in_path <= _IN_PATH or not (named or declared) or route.topics is every_topic:
        return None
    if fields & (_NAMING - {"topic"} if declared else _NAMING):
        return None
    return Tenancy(names=_derived(route, frozenset(named)))


def _derived(route: Route, in_path: frozenset[str]) -> NamesOf:
    def names(exchange: Exchange) -> Iterator[NamedThing]:
        topics = route.topics(exchange) if route.topics is not None else ()
        for topic in topics or ((exchange.topic,) if "topic" in in_path else ()):
            yield topic_thing(topic)
        if "queue" in in_path:
            yield queue_thing(exchange.names["queue"])
        if "job_id" in in_path:
            yield from job_things(exchange, exchange.names["job_id"])

    return names


def _fields(kind: Any) -> Iterator[str]:
    """The names of a request's fields, also of those within a list or a union."""
    for part in get_args(kind) or ([kind] if kind is not None else []):
        if isinstance(part, type) and issubclass(part, msgspec.Struct):
            yield from (field.encode_name for field in msgspec.structs.fields(part))
        elif get_args(part):
            yield from _fields(part)
