"""What a route is: its method and path, its handler, and the types of its requests and responses."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from driftq.access.keys import Role
from driftq.http.api.tenancy import Tenancy
from driftq.http.wire.exchange import Exchange
from driftq.model.wire.fields import Request

Handler = Callable[[Exchange], None]
TopicsOf = Callable[[Exchange], Iterable[str]]
Roles = tuple[Role, ...] | None

ALWAYS = (400, 401, 403, 408, 413, 429, 503)
"""Any request may be malformed, without a valid key, not allowed, too slow, too large, over the rates of its
key, or find the server unavailable."""

OPEN: Roles = None
"""The route needs no key."""
READ: Roles = (Role.READ,)
PRODUCE: Roles = (Role.PRODUCE,)
CONSUME: Roles = (Role.CONSUME,)
ADMIN: Roles = ()
"""No role but `admin`, which is enough for every route."""
READ_OR_CONSUME: Roles = (Role.READ, Role.CONSUME)
ANY_ROLE: Roles = (Role.READ, Role.PRODUCE, Role.CONSUME)


@dataclass(frozen=True, slots=True, kw_only=True)
class ResponseSpec:
    """What a status means, with the type of its body; None when there is none or it is not JSON."""

    text: str
    body: Any = None
    content_type: str = "application/json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    method: str
    path: str
    """With `{topic}` where the name of a topic stands."""
    handler: Handler
    roles: Roles
    """One of these roles, or `admin`, is enough; OPEN where no key is needed."""
    summary: str
    responses: Mapping[int, ResponseSpec]
    errors: tuple[int, ...] = ()
    """Besides those that are possible everywhere."""
    query: type[Request] | None = None
    body: Any = None
    """A request type, or several in a union."""
    lines: type[Request] | None = None
    """The body may also be NDJSON of these."""
    streams: bool = False
    """Its reply is a stream, so all earlier replies on the connection go first."""
    topics: TopicsOf | None = None
    """The topics that a request names: a key's patterns must match each; None where it names none."""
    tenants: Tenancy | None = None
    """What a tenant's key reaches; None: what its path and topics say, or nothing (see `tenancy_of`)."""
    notes: str = ""
