"""The routes of the consumers' side of idempotency."""

from driftq.http.api.route import ResponseSpec, Route
from driftq.http.idempotency import handlers as effects
from driftq.model.wire.idempotency import (
    BeginBody,
    BeginReply,
    CommitBody,
    EffectExtendBody,
    EffectFailBody,
    EffectStatus,
    StatusQuery,
)

EFFECT_ROUTES = (
    Route(
        method="POST",
        path="/v1/idempotency/begin",
        handler=effects.begin,
        summary="May this effect begin?",
        query=BeginBody,
        body=BeginBody,
        responses={
            200: ResponseSpec(text="Proceed, it was done, or another owner holds it", body=BeginReply)
        },
        errors=(429,),
    ),
    Route(
        method="POST",
        path="/v1/idempotency/commit",
        handler=effects.commit,
        summary="The effect is done",
        query=CommitBody,
        body=CommitBody,
        responses={204: ResponseSpec(text="It never begins again")},
        errors=(409,),
    ),
    Route(
        method="POST",
        path="/v1/idempotency/fail",
        handler=effects.fail,
        summary="The effect failed",
        query=EffectFailBody,
        body=EffectFailBody,
        responses={204: ResponseSpec(text="It may begin again")},
        errors=(409,),
    ),
    Route(
        method="POST",
        path="/v1/idempotency/extend",
        handler=effects.extend,
        summary="Hold an effect longer",
        query=EffectExtendBody,
        body=EffectExtendBody,
        responses={204: ResponseSpec(text="The lease ends `lease_ms` from now")},
        errors=(409,),
    ),
    Route(
        method="GET",
        path="/v1/idempotency/status",
        handler=effects.status,
        summary="How far an effect is",
        query=StatusQuery,
        responses={200: ResponseSpec(text="As it is on disk", body=EffectStatus)},
        errors=(404,),
    ),
)
