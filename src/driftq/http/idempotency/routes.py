"""The routes of the consumers' side of idempotency."""

from driftq.http.api.route import ADMIN, CONSUME, READ_OR_CONSUME, ResponseSpec, Route
from driftq.http.api.tenancy import Tenancy, existing_topics
from driftq.http.api.topic_access import in_request
from driftq.http.idempotency import handlers as effects
from driftq.model.wire.idempotency import (
    BeginBody,
    BeginReply,
    CommitBody,
    EffectExtendBody,
    EffectFailBody,
    EffectStatus,
    ResolveBody,
    StatusQuery,
)

EFFECT_ROUTES = (
    Route(
        method="POST",
        path="/v1/idempotency/begin",
        handler=effects.begin,
        roles=CONSUME,
        topics=in_request(BeginBody),
        tenants=Tenancy(names=existing_topics(BeginBody, "topic", "source_topic")),
        summary="Begin an effect, if no owner holds it and it is not done",
        query=BeginBody,
        body=BeginBody,
        responses={
            200: ResponseSpec(
                text="Proceed, already done, held by another owner, or unknown", body=BeginReply
            )
        },
        errors=(429,),
    ),
    Route(
        method="POST",
        path="/v1/idempotency/commit",
        handler=effects.commit,
        roles=CONSUME,
        topics=in_request(CommitBody),
        tenants=Tenancy(names=existing_topics(CommitBody, "topic")),
        summary="Commit an effect",
        query=CommitBody,
        body=CommitBody,
        responses={204: ResponseSpec(text="Done: it never begins again")},
        errors=(409,),
    ),
    Route(
        method="POST",
        path="/v1/idempotency/fail",
        handler=effects.fail,
        roles=CONSUME,
        topics=in_request(EffectFailBody),
        tenants=Tenancy(names=existing_topics(EffectFailBody, "topic")),
        summary="Report that an effect failed",
        query=EffectFailBody,
        body=EffectFailBody,
        responses={204: ResponseSpec(text="It may begin again")},
        errors=(409,),
    ),
    Route(
        method="POST",
        path="/v1/idempotency/extend",
        handler=effects.extend,
        roles=CONSUME,
        topics=in_request(EffectExtendBody),
        tenants=Tenancy(names=existing_topics(EffectExtendBody, "topic")),
        summary="Extend the lease on an effect",
        query=EffectExtendBody,
        body=EffectExtendBody,
        responses={204: ResponseSpec(text="The lease ends `lease_ms` from now")},
        errors=(409,),
    ),
    Route(
        method="POST",
        path="/v1/idempotency/resolve",
        handler=effects.resolve,
        roles=ADMIN,
        topics=in_request(ResolveBody),
        tenants=Tenancy(names=existing_topics(ResolveBody, "topic")),
        summary="Decide what became of an effect whose owner did not report it",
        query=ResolveBody,
        body=ResolveBody,
        responses={204: ResponseSpec(text="It is committed, or may begin again")},
        errors=(404, 409),
    ),
    Route(
        method="GET",
        path="/v1/idempotency/status",
        handler=effects.status,
        roles=READ_OR_CONSUME,
        topics=in_request(StatusQuery),
        tenants=Tenancy(names=existing_topics(StatusQuery, "topic", "source_topic")),
        summary="The status of an effect",
        query=StatusQuery,
        responses={200: ResponseSpec(text="The durable state", body=EffectStatus)},
        errors=(404,),
    ),
)
