"""GET /v1/registry, POST /v1/registry/resolve: the claims of the pipeline's handlers.

The registry's thread runs the SQL and encodes the page, so that a long page costs the event loop nothing.
"""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode
from typing import TYPE_CHECKING

import msgspec

from driftq.errors import ClaimNotFound, InvalidArgument
from driftq.http.api.params import Form
from driftq.http.wire.exchange import Exchange
from driftq.model.time import rfc3339
from driftq.model.wire.fields import Request
from driftq.model.wire.pipelines import ClaimDecisionBody, ClaimsQuery, ClaimsReply, ClaimView
from driftq.registry import ClaimState, Resolution, StoredClaim

if TYPE_CHECKING:
    from driftq.registry.admin import ClaimPlace
    from driftq.registry.sql_registry import SqlRegistry

CLAIMS = Form(ClaimsQuery)
RESOLVE = Form(ClaimDecisionBody)
NOTHING = Form(Request)
_PAGE = 100
_place = msgspec.json.Decoder(tuple[str, int, str, str])
_encode = msgspec.json.Encoder().encode


def list_claims(exchange: Exchange) -> None:
    asked = CLAIMS.read(exchange.body, exchange.query)
    after = None if asked.after is None else _read_place(asked.after)
    exchange.edge.spawn(exchange, _list(exchange, asked, after))


async def _list(exchange: Exchange, asked: ClaimsQuery, after: tuple[str, int, str, str] | None) -> None:
    service = exchange.edge.broker.registry

    def query(registry: SqlRegistry | None) -> bytes:
        if registry is None:
            return _encode(ClaimsReply([]))
        from driftq.registry.admin import OPEN_STATES, ClaimPlace  # The extra is installed.

        states = OPEN_STATES if asked.state is None else (ClaimState(asked.state),)
        page = registry.page(
            states,
            handler=asked.handler,
            limit=asked.limit or _PAGE,
            after=None if after is None else ClaimPlace(*after),
        )
        more = None if page.more_after is None else _place_text(page.more_after)
        return _encode(ClaimsReply([_view(claim) for claim in page.claims], more))

    exchange.reply_ok(query(None) if service is None else await service.ask(query))


def resolve(exchange: Exchange) -> None:
    NOTHING.check_query(exchange.query)
    if not exchange.body:
        raise InvalidArgument("", "the body must name handler, event_id and as")
    asked = RESOLVE.read(exchange.body, exchange.query)
    exchange.edge.spawn(exchange, _resolve(exchange, asked))


async def _resolve(exchange: Exchange, asked: ClaimDecisionBody) -> None:
    service = exchange.edge.broker.registry
    key = exchange.caller
    by = asked.by or (key.name if key is not None else "an operator")

    def change(registry: SqlRegistry | None) -> None:
        if registry is None:
            raise ClaimNotFound(asked.handler, event_id=asked.event_id)
        dead = registry.find(asked.handler, asked.event_id).state is ClaimState.DEAD
        if dead and asked.as_ == "retry":
            registry.requeue(asked.handler, asked.event_id, by=by)  # Of a dead one, that is a retry.
        else:
            registry.resolve(asked.handler, asked.event_id, Resolution(asked.as_), by=by)

    if service is None:
        change(None)
    else:
        await service.ask(change)
    exchange.reply_done()


def _view(claim: StoredClaim) -> ClaimView:
    return ClaimView(
        handler=claim.handler,
        event_id=claim.event_id,
        state=claim.state.value,
        aggregate_type=claim.aggregate_type,
        aggregate_id=claim.aggregate_id,
        sequence_number=claim.sequence_number,
        attempts=claim.attempts,
        owner=claim.owner,
        effect=claim.effect.value,
        claimed_at=rfc3339(claim.claimed_at),
        lease_until=_instant(claim.lease_until) if claim.state is ClaimState.CLAIMED else None,
        retry_at=_instant(claim.retry_at) if claim.state is ClaimState.FAILED else None,
        finished_at=_instant(claim.finished_at),
        last_error=claim.last_error,
        reason=claim.reason,
        requeues=claim.requeues,
    )


def _instant(at_ms: int) -> str | None:
    return rfc3339(at_ms) if at_ms else None


def _place_text(place: ClaimPlace) -> str:
    """The place as one word, for `after`."""
    return urlsafe_b64encode(_encode(tuple(place))).decode().rstrip("=")


def _read_place(text: str) -> tuple[str, int, str, str]:
    try:
        return _place.decode(urlsafe_b64decode(text.encode() + b"=" * (-len(text) % 4)))
    except (ValueError, msgspec.MsgspecError):
        raise InvalidArgument("after", "must be the `next` of the page before") from None
