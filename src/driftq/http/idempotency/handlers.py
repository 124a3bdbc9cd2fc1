"""The consumers' side of idempotency: begin, commit, fail, extend, resolve, status."""

from __future__ import annotations

from functools import partial

import msgspec

from driftq.core.decide.effects import CommittedEffect, HeldEffect, LapsedEffect
from driftq.core.effects import Identity
from driftq.core.records import (
    CRASH_IDEMPOTENT,
    CRASH_UNDECLARED,
    CRASH_UNKNOWN,
    EffectBegun,
    EffectTerms,
)
from driftq.errors import InvalidArgument
from driftq.http.api.params import Form, check_json, check_name
from driftq.http.wire.exchange import Exchange, reply_outcome
from driftq.model.time import rfc3339
from driftq.model.wire.idempotency import (
    ABSENT,
    BeginBody,
    BeginReply,
    CommitBody,
    EffectBody,
    EffectExtendBody,
    EffectFailBody,
    EffectStatus,
    ResolveBody,
    StatusQuery,
)
from driftq.server.effects.requests import (
    BeginRequest,
    CommitRequest,
    EffectRecord,
    EffectSource,
    ExtendEffectRequest,
    FailRequest,
    ResolveRequest,
    StatusRequest,
)

BEGIN = Form(BeginBody)
COMMIT = Form(CommitBody)
FAIL = Form(EffectFailBody)
EXTEND = Form(EffectExtendBody)
RESOLVE = Form(ResolveBody)
STATUS = Form(StatusQuery)

_CRASH = {None: CRASH_UNDECLARED, "idempotent": CRASH_IDEMPOTENT, "unknown": CRASH_UNKNOWN}


def _identity(exchange: Exchange, effect: EffectBody) -> Identity:
    """With a tenant's key the identity is the tenant's, so that no other tenant's effect has it."""
    check_name("group", effect.group)
    tenant = exchange.require_tenant(effect.tenant_id) or ""
    return (tenant, effect.topic, effect.group, effect.idempotency_key)


def _source(effect: StatusQuery) -> EffectSource | None:
    if effect.offset is not None:
        return EffectSource(effect.source_topic or effect.topic, effect.offset)
    if effect.source_topic is not None:
        raise InvalidArgument("source_topic", "needs an offset")
    return None


def begin(exchange: Exchange) -> None:
    asked = BEGIN.read(exchange.body, exchange.query)
    check_name("owner", asked.owner)
    reply = exchange.answering(partial(_begun, exchange))
    terms = EffectTerms(_CRASH[asked.effect], asked.ttl_ms or 0, asked.parent_step_id or "")
    exchange.edge.engine.submit(
        BeginRequest(_identity(exchange, asked), asked.owner, asked.lease_ms, reply, _source(asked), terms)
    )


def _begun(exchange: Exchange, outcome: EffectBegun | HeldEffect | LapsedEffect | CommittedEffect) -> None:
    match outcome:
        case EffectBegun():
            until = rfc3339(outcome.at + outcome.lease_ms)
            reply = BeginReply("proceed", token=outcome.token, lease_until=until)
        case HeldEffect():
            until = rfc3339(outcome.lease_until)
            reply = BeginReply("held", owner=outcome.owner, lease_until=until)
        case LapsedEffect():
            until = rfc3339(outcome.lapsed_at)
            reply = BeginReply("unknown", owner=outcome.owner, lease_until=until)
        case _:
            result = msgspec.Raw(outcome.result.encode()) if outcome.result is not None else None
            reply = BeginReply("already_committed", result=result)
    exchange.reply_json(reply)


def commit(exchange: Exchange) -> None:
    asked = COMMIT.read(exchange.body, exchange.query)
    check_name("owner", asked.owner)
    result: bytes | None = None
    if isinstance(asked.result, msgspec.Raw):
        check_json("result", asked.result)
        result = bytes(asked.result)
    reply = partial(reply_outcome, exchange)
    exchange.edge.engine.submit(
        CommitRequest(_identity(exchange, asked), asked.owner, asked.token, result, reply)
    )


def fail(exchange: Exchange) -> None:
    asked = FAIL.read(exchange.body, exchange.query)
    check_name("owner", asked.owner)
    error = asked.error or ""
    reply = partial(reply_outcome, exchange)
    exchange.edge.engine.submit(
        FailRequest(_identity(exchange, asked), asked.owner, asked.token, error, reply)
    )


def extend(exchange: Exchange) -> None:
    asked = EXTEND.read(exchange.body, exchange.query)
    check_name("owner", asked.owner)
    exchange.edge.engine.submit(
        ExtendEffectRequest(
            _identity(exchange, asked),
            asked.owner,
            asked.token,
            asked.lease_ms,
            partial(reply_outcome, exchange),
        )
    )


def resolve(exchange: Exchange) -> None:
    asked = RESOLVE.read(exchange.body, exchange.query)
    result: bytes | None = None
    if isinstance(asked.result, msgspec.Raw):
        if asked.decision == "retry":
            raise InvalidArgument("result", "belongs to an effect that happened")
        check_json("result", asked.result)
        result = bytes(asked.result)
    reply = partial(reply_outcome, exchange)
    committed = asked.decision == "committed"
    exchange.edge.engine.submit(ResolveRequest(_identity(exchange, asked), committed, result, reply))


def status(exchange: Exchange) -> None:
    asked = STATUS.read(exchange.body, exchange.query)
    reply = exchange.answering(partial(_shown, exchange))
    exchange.edge.engine.submit(StatusRequest(_identity(exchange, asked), reply, _source(asked)))


def _shown(exchange: Exchange, found: EffectRecord) -> None:
    exchange.reply_json(
        EffectStatus(
            status=found.status,  # type: ignore[arg-type]
            owner=found.owner or "",
            lease_until="" if found.lease_until is None else rfc3339(found.lease_until),
            last_error=ABSENT if found.last_error is None else found.last_error,
            result=found.result,
            token=found.token or 0,
        )
    )
