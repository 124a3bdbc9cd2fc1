"""The routes of the dashboard. Its page and files need no key; what they show does."""

from driftq.http.api.route import OPEN, READ, ResponseSpec, Route
from driftq.http.api.tenancy import OWN
from driftq.http.api.topic_access import in_request
from driftq.http.ui import files, live, session, steps, views
from driftq.model.wire.system import WhoamiReply
from driftq.model.wire.ui import (
    GroupSummaries,
    GroupsViewQuery,
    LeasesQuery,
    LeasesReply,
    LiveOverview,
    LoginBody,
    OpenStepsQuery,
    OpenStepsReply,
    TopicSummaries,
    ViewQuery,
)

UI_PATHS = files.HOME.encode()
"""Whether there is such a page or file is no secret."""
_HTML = "text/html"
_FILE = {
    200: ResponseSpec(text="The file", content_type="text/javascript"),
    304: ResponseSpec(text="The browser has it"),
}
_PAGE = {
    200: ResponseSpec(text="The page, which shows what its address names", content_type=_HTML),
    304: ResponseSpec(text="The browser has it"),
}

UI_ROUTES = (
    Route(
        method="GET",
        path="/v1/ui",
        handler=files.to_home,
        roles=OPEN,
        summary="To the dashboard",
        responses={302: ResponseSpec(text="It is at `/v1/ui/`")},
    ),
    Route(
        method="GET",
        path="/v1/ui/",
        handler=files.page,
        roles=OPEN,
        summary="The dashboard",
        responses=_PAGE,
    ),
    Route(
        method="POST",
        path="/v1/ui/session",
        handler=session.log_in,
        roles=OPEN,
        summary="Log in to the dashboard with an API key",
        body=LoginBody,
        responses={200: ResponseSpec(text="A cookie stands for the key", body=WhoamiReply)},
        notes="The cookie is HttpOnly and SameSite=Strict. The session ends after 12 hours, when the key is "
        "changed or revoked, and when the server stops. Wrong keys are limited per address, as everywhere.",
    ),
    Route(
        method="DELETE",
        path="/v1/ui/session",
        handler=session.log_out,
        roles=OPEN,
        summary="Log out of the dashboard",
        responses={204: ResponseSpec(text="The session has ended")},
    ),
    Route(
        method="GET",
        path="/v1/ui/live",
        handler=live.live,
        roles=READ,
        tenants=OWN,
        summary="The dashboard's numbers, once a second",
        responses={
            200: ResponseSpec(text="Server-sent events", body=LiveOverview, content_type="text/event-stream")
        },
        streams=True,
        notes="A key that is limited to topics gets sums over those.",
    ),
    Route(
        method="GET",
        path="/v1/ui/view/topics",
        handler=views.topics,
        roles=READ,
        tenants=OWN,
        summary="Topics with their load, for the dashboard",
        query=ViewQuery,
        responses={200: ResponseSpec(text="A page of topics", body=TopicSummaries)},
    ),
    Route(
        method="GET",
        path="/v1/ui/view/groups",
        handler=views.groups,
        roles=READ,
        tenants=OWN,
        summary="Groups with their load, for the dashboard",
        query=GroupsViewQuery,
        responses={200: ResponseSpec(text="A page of groups", body=GroupSummaries)},
    ),
    Route(
        method="GET",
        path="/v1/ui/view/leases",
        handler=views.leases,
        roles=READ,
        tenants=OWN,
        topics=in_request(LeasesQuery),
        summary="Who holds which messages of a topic, for the dashboard",
        query=LeasesQuery,
        responses={200: ResponseSpec(text="The deliveries that end first", body=LeasesReply)},
        errors=(404,),
    ),
    Route(
        method="GET",
        path="/v1/ui/view/steps",
        handler=steps.steps,
        roles=READ,
        tenants=OWN,
        summary="Steps of runs that are not done, for the dashboard",
        query=OpenStepsQuery,
        responses={200: ResponseSpec(text="Unknown ones first", body=OpenStepsReply)},
        notes="It looks at the 5,000 effects that began longest ago.",
    ),
    Route(
        method="GET",
        path="/v1/ui/static/{file}",
        handler=files.static,
        roles=OPEN,
        summary="A file of the dashboard",
        responses=_FILE,
        errors=(404,),
    ),
    Route(
        method="GET",
        path="/v1/ui/static/{folder}/{file}",
        handler=files.static,
        roles=OPEN,
        summary="A file of the dashboard",
        responses=_FILE,
        errors=(404,),
    ),
    Route(
        method="GET",
        path="/v1/ui/{page}",
        handler=files.page,
        roles=OPEN,
        summary="A page of the dashboard",
        responses=_PAGE,
        errors=(404,),
    ),
    Route(
        method="GET",
        path="/v1/ui/{page}/{name}",
        handler=files.page,
        roles=OPEN,
        summary="The dashboard's page for one topic, job or run",
        responses=_PAGE,
        errors=(404,),
    ),
    Route(
        method="GET",
        path="/v1/ui/{page}/{name}/{part}",
        handler=files.page,
        roles=OPEN,
        summary="The dashboard's page for one message or aggregate",
        responses=_PAGE,
        errors=(404,),
    ),
)
