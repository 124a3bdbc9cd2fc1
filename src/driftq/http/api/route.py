"""What a route is: its method and path, its handler, and the types of its requests and responses."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from driftq.http.wire.exchange import Exchange
from driftq.model.wire.fields import Request

Handler = Callable[[Exchange], None]

ALWAYS = (400, 403, 408, 413, 503)
"""Any request may be malformed, from a foreign page, too slow, too large, or find the server unavailable."""


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
    notes: str = ""
