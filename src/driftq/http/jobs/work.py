"""Working on jobs: claim, heartbeat, complete, fail, and many settlements in one request."""

from __future__ import annotations

from functools import partial

import msgspec

from driftq.core.jobs.decide import Settlement
from driftq.errors import DriftQError, InvalidArgument
from driftq.http.api.params import Form, body_problem, check_json, check_name
from driftq.http.jobs.handlers import offset_of
from driftq.http.messages.settle import check_count, read_many, reply_each, reply_only, reply_outcome
from driftq.http.reads import read_claimed_jobs
from driftq.http.wire.exchange import Exchange
from driftq.model.job import JOB_PAYLOAD_MAX
from driftq.model.wire.jobs import (
    ClaimBody,
    ClaimedJob,
    ClaimReply,
    CompleteBody,
    FailBody,
    HeartbeatBody,
    JobSettlement,
    SettleBody,
    SettleParts,
)
from driftq.server.jobs.requests import ClaimRequest, JobsGranted, SettleRequest, heartbeat

CLAIM = Form(ClaimBody)
HEARTBEAT = Form(HeartbeatBody)
COMPLETE = Form(CompleteBody)
FAIL = Form(FailBody)
SETTLE = Form(SettleBody)
_parts = msgspec.json.Decoder(SettleParts)
_decode_part = msgspec.json.Decoder(JobSettlement).decode


def claim(exchange: Exchange) -> None:
    """Jobs for one owner. A client that disconnects while it waits gets none, so that no lease is wasted."""
    asked = CLAIM.read(exchange.body, exchange.query)
    check_name("owner", asked.owner)
    edge = exchange.edge
    wait_ms = asked.wait_ms or 0
    reply = exchange.answering(partial(_claimed, exchange))
    if wait_ms:
        exchange.on_lost = partial(edge.engine.stages.jobs.withdraw, reply)
    queues = list(dict.fromkeys(asked.queues))
    until = edge.clock.now() + wait_ms
    edge.engine.submit(ClaimRequest(queues, asked.owner, asked.lease_ms, asked.max, until, reply))


def _claimed(exchange: Exchange, granted: JobsGranted | None) -> None:
    exchange.on_lost = None
    if granted is None:
        exchange.reply_json(ClaimReply([]))
        return

    def send(jobs: list[ClaimedJob]) -> None:
        exchange.reply_json(ClaimReply(jobs))

    read_claimed_jobs(exchange, granted, send)


def beat(exchange: Exchange) -> None:
    asked = HEARTBEAT.read(exchange.body, exchange.query)
    offset = offset_of(exchange.names["job_id"])
    reply = partial(reply_outcome, exchange)
    exchange.edge.engine.submit(heartbeat(offset, token=asked.token, lease_ms=asked.lease_ms, reply=reply))


def complete(exchange: Exchange) -> None:
    asked = COMPLETE.read(exchange.body, exchange.query)
    offset = offset_of(exchange.names["job_id"])
    _settle_one(exchange, Settlement(offset, asked.token, result=_result(asked.result)))


def fail(exchange: Exchange) -> None:
    asked = FAIL.read(exchange.body, exchange.query)
    offset = offset_of(exchange.names["job_id"])
    retryable = asked.retryable is not False
    _settle_one(exchange, Settlement(offset, asked.token, error=asked.error, retryable=retryable))


def _result(given: msgspec.Raw | msgspec.UnsetType) -> str | None:
    if not isinstance(given, msgspec.Raw):
        return None
    check_json("result", given, limit_bytes=JOB_PAYLOAD_MAX)
    return bytes(given).decode()


def _settle_one(exchange: Exchange, settlement: Settlement) -> None:
    exchange.edge.engine.submit(SettleRequest([settlement], partial(reply_only, exchange)))


def settle(exchange: Exchange) -> None:
    """Many settlements; an invalid one fails alone."""
    errors: dict[int, DriftQError] = {}
    asked = read_many(exchange, SETTLE, _parts)
    check_count(exchange, "results", len(asked.results))
    check_name("owner", asked.owner)
    settlements: list[Settlement] = []
    given: list[JobSettlement | msgspec.Raw] = [*asked.results]
    for slot, end in enumerate(given):
        try:
            settlements.append(_settlement(end))
        except DriftQError as refused:
            errors[slot] = refused
    reply = partial(reply_each, exchange, b'{"status":"settled"}', errors)
    exchange.edge.engine.submit(SettleRequest(settlements, reply))


def _settlement(given: JobSettlement | msgspec.Raw) -> Settlement:
    """One settlement; raises its error."""
    if isinstance(given, msgspec.Raw):
        try:
            given = _decode_part(given)
        except (ValueError, RecursionError) as error:
            raise body_problem(error) from None
    offset = offset_of(given.job_id)
    if given.outcome == "complete":
        if given.error is not None or given.retryable is not None:
            raise InvalidArgument("error", 'is for the outcome "fail"')
        return Settlement(offset, given.token, result=_result(given.result))
    if isinstance(given.result, msgspec.Raw):
        raise InvalidArgument("result", 'is for the outcome "complete"')
    if given.error is None:
        raise InvalidArgument("error", 'has to be given with the outcome "fail"')
    return Settlement(offset, given.token, error=given.error, retryable=given.retryable is not False)
