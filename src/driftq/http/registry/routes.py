"""The routes of the registry."""

from driftq.http.api.route import ADMIN, READ_OR_CONSUME, ResponseSpec, Route
from driftq.http.registry import handlers as registry
from driftq.model.wire.pipelines import ClaimDecisionBody, ClaimsQuery, ClaimsReply

REGISTRY_ROUTES = (
    Route(
        method="GET",
        path="/v1/registry",
        handler=registry.list_claims,
        roles=READ_OR_CONSUME,
        summary="List the claims of the pipeline's handlers",
        query=ClaimsQuery,
        responses={
            200: ResponseSpec(
                text="Open claims: `unknown`, `dead`, `failed`, `claimed`, `ready`; finished ones by "
                "`state`, the newest first",
                body=ClaimsReply,
            )
        },
        notes="Empty until a worker has created the registry.",
    ),
    Route(
        method="POST",
        path="/v1/registry/resolve",
        handler=registry.resolve,
        roles=ADMIN,
        summary="Record the outcome of an effect that is unknown, or retry a dead claim",
        body=ClaimDecisionBody,
        responses={204: ResponseSpec(text="Resolved: workers act on it within seconds")},
        errors=(404, 409),
        notes="`done` and `dead` are for `unknown` claims, `retry` also for `dead` ones; else 409 "
        "`wrong_state`.",
    ),
)
