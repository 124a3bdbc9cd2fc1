"""POST /v1/dlq/{topic}/letters: the relays of workers, projections and the publisher hand over dead letters.

An invalid dead letter fails alone. A repeated one is answered with the place of the first.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from driftq.core.decide.produce import Duplicate
from driftq.errors import DriftQError, InvalidArgument
from driftq.http.api.params import Form, body_problem, check_count, check_name, read_many
from driftq.http.wire.exchange import Exchange, error_body
from driftq.model.dead_letter import HandlerDeadLetter
from driftq.model.topic import topic_name_problem
from driftq.model.wire.handler_letters import (
    HandlerLetter,
    HandlerLetterParts,
    HandlerLettersBody,
    PublishedLetter,
)
from driftq.server.dlq.handler_letters import StoreDeadLettersRequest, StoredOutcome

LETTERS = Form(HandlerLettersBody)
_parts = msgspec.json.Decoder(HandlerLetterParts)
_decode_part = msgspec.json.Decoder(HandlerLetter).decode


def publish(exchange: Exchange) -> None:
    if not exchange.body:
        raise InvalidArgument("", "the dead letters must be given in a JSON body")
    problem = topic_name_problem(exchange.topic)
    if problem:
        raise InvalidArgument("topic", problem)
    asked = read_many(exchange, LETTERS, _parts)
    check_count(exchange, "letters", len(asked.letters))
    errors: dict[int, DriftQError] = {}
    dead_letters: list[HandlerDeadLetter] = []
    ids: list[str] = []
    parts: Sequence[HandlerLetter | msgspec.Raw] = asked.letters
    for slot, part in enumerate(parts):
        try:
            letter, dead_letter = _read(part, exchange.topic)
        except InvalidArgument as refused:
            errors[slot] = refused
        else:
            ids.append(letter.id)
            dead_letters.append(dead_letter)

    def send(outcomes: list[StoredOutcome]) -> None:
        results: list[StoredOutcome] = list(outcomes)
        for slot, error in sorted(errors.items()):
            results.insert(slot, error)
        exchange.reply_json({"results": [_result(outcome) for outcome in results]})

    if dead_letters:
        reply = exchange.answering(send)
        exchange.edge.engine.submit(StoreDeadLettersRequest(exchange.topic, dead_letters, ids, reply))
    else:
        send([])


def _read(part: HandlerLetter | msgspec.Raw, topic: str) -> tuple[HandlerLetter, HandlerDeadLetter]:
    try:
        letter = part if isinstance(part, HandlerLetter) else _decode_part(part)
    except (ValueError, RecursionError) as error:
        raise body_problem(error) from None
    for field in ("id", "handler", "stage"):
        check_name(field, getattr(letter, field))
    try:
        return letter, letter.dead_letter(topic)
    except ValueError:
        raise InvalidArgument("at", "must be an RFC 3339 time with a zone") from None


def _result(outcome: StoredOutcome) -> Any:
    if isinstance(outcome, DriftQError):
        return msgspec.Raw(error_body(outcome))
    if isinstance(outcome, Duplicate):
        return PublishedLetter("duplicate", outcome.partition, outcome.offset)
    return PublishedLetter("stored", *outcome)
