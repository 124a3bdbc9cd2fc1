"""The routes that find messages and explain what happened."""

from driftq.http.api.route import READ, ResponseSpec, Route
from driftq.http.api.tenancy import OWN, Tenancy, topic_in_path
from driftq.http.api.topic_access import every_topic, in_path
from driftq.http.explain import message as explain
from driftq.http.explain import runs
from driftq.http.messages import search
from driftq.model.wire.explain import ExplainedMessage, ExplainedRun
from driftq.model.wire.messages import MessagesQuery, MessagesReply

EXPLAIN_ROUTES = (
    Route(
        method="GET",
        path="/v1/topics/{topic}/messages",
        handler=search.find,
        roles=READ,
        topics=in_path,
        summary="Find stored messages by key, run, tenant, offset or time",
        query=MessagesQuery,
        tenants=Tenancy(names=topic_in_path),  # A run, too, is looked for in this topic alone.
        responses={200: ResponseSpec(text="A page of messages by offset", body=MessagesReply)},
        errors=(404,),
        notes="A message is found as soon as it is durable. One call reads a bounded part of the topic: "
        "where no index helps, a page may be short or empty and still have a `next`.",
    ),
    Route(
        method="GET",
        path="/v1/messages/{topic}/{offset}",
        handler=explain.explain,
        roles=READ,
        topics=in_path,
        summary="Everything that happened to a message",
        responses={200: ResponseSpec(text="The message, and its history in order", body=ExplainedMessage)},
        errors=(404,),
    ),
    Route(
        method="GET",
        path="/v1/runs/{run_id}",
        handler=runs.show_run,
        roles=READ,
        topics=every_topic,
        tenants=OWN,
        summary="The messages of a run as a tree of steps",
        responses={200: ResponseSpec(text="Steps, each after its parent", body=ExplainedRun)},
        errors=(404,),
    ),
)
