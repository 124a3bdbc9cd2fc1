"""Settling, one or many in a request: how many are read, and what each is answered."""

from __future__ import annotations

from typing import TypeVar

import msgspec

from driftq.errors import DriftQError, InvalidArgument
from driftq.http.api.params import Form, decode
from driftq.http.wire.exchange import Exchange
from driftq.http.wire.responses import error_body
from driftq.model.wire.fields import Request

Outcomes = list[DriftQError | None] | DriftQError
"""None for each that was done; or one error for all."""
_Whole = TypeVar("_Whole", bound=Request)
_Parts = TypeVar("_Parts", bound=Request)


def reply_outcome(exchange: Exchange, outcome: DriftQError | None) -> None:
    if outcome is None:
        exchange.reply_done()
    else:
        exchange.reply_error(outcome)


def reply_only(exchange: Exchange, outcomes: Outcomes) -> None:
    """The outcome of the one that was asked for."""
    reply_outcome(exchange, outcomes if isinstance(outcomes, DriftQError) else outcomes[0])


def reply_each(exchange: Exchange, done: bytes, errors: dict[int, DriftQError], outcomes: Outcomes) -> None:
    """`done`, or its error, for each in order; `errors` are those, by place, that could not be asked."""
    if isinstance(outcomes, DriftQError):
        exchange.reply_error(outcomes)
        return
    results = list(outcomes)
    for slot, error in sorted(errors.items()):
        results.insert(slot, error)
    texts = [done if result is None else error_body(result) for result in results]
    exchange.reply_ok(b'{"results":[%b]}' % b",".join(texts))


def read_many(exchange: Exchange, form: Form[_Whole], parts: msgspec.json.Decoder[_Parts]) -> _Whole | _Parts:
    """The whole body; or, when one in it is bad, the same with each left as it came: it fails alone."""
    try:
        return form.read(exchange.body, exchange.query)
    except InvalidArgument:
        if not exchange.body:
            raise
        form.check_query(exchange.query)
        return decode(parts, exchange.body)


def check_count(exchange: Exchange, field: str, given: int) -> None:
    if given > exchange.edge.options.batch_max:
        raise InvalidArgument(field, f"at most {exchange.edge.options.batch_max} in one request")
