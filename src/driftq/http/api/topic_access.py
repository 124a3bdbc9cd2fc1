"""Which topics a request names: what a key that is limited to some topics is compared with.

Each function reads the request as its handler does, with the same type, so both see the same topic. They run
only for keys with topic patterns.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, TypeVar

from driftq.http.api.params import Form
from driftq.http.wire.exchange import Exchange
from driftq.model.wire.fields import Request

if TYPE_CHECKING:
    from driftq.http.api.route import TopicsOf

EVERY_TOPIC = ""
"""No topic has this name, and only the pattern `*` matches it."""


_R = TypeVar("_R", bound=Request)


def in_path(exchange: Exchange) -> Iterable[str]:
    """The topic of the path."""
    return (exchange.topic,)


def every_topic(_: Exchange) -> Iterable[str]:
    """The reply covers all topics."""
    return (EVERY_TOPIC,)


def in_request(kind: type[_R], field: str = "topic") -> TopicsOf:
    """The field of a body, or of a query without one."""
    form = Form(kind)

    def topics(exchange: Exchange) -> Iterable[str]:
        return (str(getattr(form.read(exchange.body, exchange.query), field)),)

    return topics
