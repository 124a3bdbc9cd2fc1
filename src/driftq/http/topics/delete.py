"""Deleting topics and groups, and resetting a group to another offset."""

from __future__ import annotations

from typing import Any

from driftq.core.decide.delete import EARLIEST, LATEST, ResetTo
from driftq.errors import InvalidArgument
from driftq.http.api.params import Form
from driftq.http.wire.exchange import Exchange
from driftq.model.time import parse_rfc3339
from driftq.model.wire.fields import Request
from driftq.model.wire.system import StatusReply
from driftq.model.wire.topics import ResetBody
from driftq.server.requests import DeleteGroupRequest, DeleteTopicRequest, ResetRequest

NOTHING = Form(Request)
RESET = Form(ResetBody)


def delete_topic(exchange: Exchange) -> None:
    NOTHING.read(exchange.body, exchange.query)
    exchange.edge.engine.submit(DeleteTopicRequest(exchange.topic, _replying(exchange, "deleted")))


def delete_group(exchange: Exchange) -> None:
    NOTHING.read(exchange.body, exchange.query)
    exchange.edge.engine.submit(
        DeleteGroupRequest(exchange.topic, exchange.group, _replying(exchange, "deleted"))
    )


def reset_group(exchange: Exchange) -> None:
    asked = RESET.read(exchange.body, exchange.query)
    request = ResetRequest(exchange.topic, exchange.group, reset_to(asked.to), _replying(exchange, "reset"))
    exchange.edge.engine.submit(request)


def reset_to(text: str | int) -> ResetTo:
    """The target of a reset: a number is an offset, also when it is sent as text."""
    if isinstance(text, int) or text in (EARLIEST, LATEST):
        return text
    if text.isascii() and text.isdigit() and len(text) <= 18:
        return int(text)
    try:
        return (parse_rfc3339(text),)
    except (ValueError, OverflowError):
        raise InvalidArgument(
            "to", "must be earliest, latest, an offset or an RFC 3339 time with a zone"
        ) from None


def _replying(exchange: Exchange, status: str) -> Any:
    return exchange.answering(lambda _: exchange.reply_json(StatusReply(status)))
