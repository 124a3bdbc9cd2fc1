"""Every route of `/v1`, and the way from a request to its handler."""

from __future__ import annotations

from functools import cache
from typing import Any

import msgspec

from driftq.errors import DriftQError, MethodNotAllowed, RouteNotFound
from driftq.http import batch, consume, endings, produce, records, replies, schemas, settle, system, topics
from driftq.http.exchange import Exchange
from driftq.http.openapi import document
from driftq.http.params import unquote
from driftq.http.route import Answer, Route
from driftq.model import Delivery
from driftq.server.views import TopicView

_NDJSON = "application/x-ndjson"


def openapi(exchange: Exchange) -> None:
    topics.NOTHING.read(exchange.body, exchange.query)
    exchange.reply_ok(_document(exchange.edge.options.version))


@cache
def _document(version: str) -> bytes:
    return msgspec.json.encode(document(ROUTES, version=version))


ROUTES = (
    Route(
        method="GET",
        path="/v1/healthz",
        handler=system.healthz,
        summary="The process is alive",
        answers={200: Answer(text="Alive", body=replies.StatusReply)},
    ),
    Route(
        method="GET",
        path="/v1/readyz",
        handler=system.readyz,
        summary="The server can do its work",
        answers={200: Answer(text="Ready; 503 says why not", body=replies.StatusReply)},
    ),
    Route(
        method="GET",
        path="/v1/version",
        handler=system.version,
        summary="Version, and how durable a confirmed message is",
        answers={200: Answer(text="Version", body=replies.VersionReply)},
    ),
    Route(
        method="GET",
        path="/v1/topics",
        handler=topics.list_topics,
        summary="List topics by name",
        query=schemas.PageQuery,
        answers={200: Answer(text="Names", body=replies.TopicsReply)},
    ),
    Route(
        method="POST",
        path="/v1/topics",
        handler=topics.create_topic,
        summary="Create a topic",
        query=schemas.TopicBody,
        body=schemas.TopicBody,
        answers={201: Answer(text="It is there", body=replies.CreatedReply)},
        errors=(409,),
    ),
    Route(
        method="GET",
        path="/v1/topics/{topic}",
        handler=topics.show_topic,
        summary="A topic's partitions, groups and readers",
        answers={200: Answer(text="As it is on disk", body=TopicView)},
        errors=(404,),
    ),
    Route(
        method="DELETE",
        path="/v1/topics/{topic}",
        handler=endings.delete_topic,
        summary="Delete a topic with everything in it",
        answers={200: Answer(text="It is gone", body=replies.StatusReply)},
        errors=(404,),
    ),
    Route(
        method="POST",
        path="/v1/topics/{topic}/groups/{group}/reset",
        handler=endings.reset_group,
        summary="Let a group go on from somewhere else",
        query=schemas.ResetBody,
        body=schemas.ResetBody,
        answers={200: Answer(text="It does", body=replies.StatusReply)},
        errors=(404,),
    ),
    Route(
        method="DELETE",
        path="/v1/topics/{topic}/groups/{group}",
        handler=endings.delete_group,
        summary="Delete a group with its progress",
        answers={200: Answer(text="It is gone", body=replies.StatusReply)},
        errors=(404,),
    ),
    Route(
        method="GET",
        path="/v1/topics/{topic}/records",
        handler=records.records,
        summary="Read stored messages without a group",
        query=schemas.RecordsQuery,
        answers={200: Answer(text="One message a line", body=replies.RecordLine, content_type=_NDJSON)},
        errors=(404,),
        streams=True,
    ),
    Route(
        method="POST",
        path="/v1/topics/{topic}/readers",
        handler=topics.report_reader,
        summary="Report how far a reader is",
        query=schemas.ReaderBody,
        body=schemas.ReaderBody,
        answers={204: Answer(text="Noted")},
        errors=(404,),
    ),
    Route(
        method="POST",
        path="/v1/produce",
        handler=produce.produce,
        summary="Produce a message",
        query=schemas.ProduceQuery,
        body=schemas.ProduceBody,
        answers={200: Answer(text="It is durable", body=replies.ProducedReply)},
        errors=(404, 409, 429),
    ),
    Route(
        method="POST",
        path="/v1/produce/batch",
        handler=batch.produce_batch,
        summary="Produce many messages with one durable write",
        query=schemas.BatchQuery,
        body=schemas.BatchBody,
        lines=schemas.ProduceBody,
        answers={200: Answer(text="A result for each message, in order", body=replies.BatchReply)},
        errors=(404, 409, 429),
        notes="Where a batch is atomic and refused, the error also has `results`.",
    ),
    Route(
        method="GET",
        path="/v1/consume",
        handler=consume.consume,
        summary="Receive messages as a stream",
        query=schemas.ConsumeBody,
        answers={200: Answer(text="One delivery a line", body=Delivery, content_type=_NDJSON)},
        errors=(404,),
        streams=True,
        notes="The parameters may also be a JSON body.",
    ),
    Route(
        method="POST",
        path="/v1/ack",
        handler=settle.ack,
        summary="Done with a message",
        query=schemas.AckBody,
        body=schemas.AckBody,
        answers={204: Answer(text="Settled, now or before")},
        errors=(404, 409),
    ),
    Route(
        method="POST",
        path="/v1/nack",
        handler=settle.nack,
        summary="A message failed: deliver it again later",
        query=schemas.NackBody,
        body=schemas.NackBody,
        answers={204: Answer(text="It will come again")},
        errors=(404, 409),
    ),
    Route(
        method="POST",
        path="/v1/ack/batch",
        handler=settle.ack_batch,
        summary="Done with many messages",
        query=schemas.AckBatchBody,
        body=schemas.AckBatchBody,
        answers={200: Answer(text="A result for each ack, in order", body=replies.AckBatchReply)},
        errors=(404,),
    ),
    Route(
        method="POST",
        path="/v1/lease/extend",
        handler=settle.extend,
        summary="Keep a message longer",
        query=schemas.ExtendBody,
        body=schemas.ExtendBody,
        answers={204: Answer(text="The lease ends `lease_ms` from now")},
        errors=(404, 409),
    ),
    Route(
        method="GET",
        path="/v1/metrics",
        handler=system.metrics,
        summary="Numbers for Prometheus",
        answers={200: Answer(text="Prometheus text format", content_type="text/plain")},
    ),
    Route(
        method="GET",
        path="/v1/openapi.json",
        handler=openapi,
        summary="This document",
        answers={200: Answer(text="OpenAPI 3.1", body=dict[str, Any])},
    ),
    Route(
        method="GET",
        path="/v1/docs",
        handler=system.docs,
        summary="This document as a page",
        answers={200: Answer(text="HTML", content_type="text/html")},
    ),
)

_BY_PATH: dict[bytes, dict[bytes, Route]] = {}
for _route in ROUTES:
    _BY_PATH.setdefault(_route.path.encode(), {})[_route.method.encode()] = _route

_TOPICS = b"/v1/topics/"
_GROUPS = b"groups/"


def dispatch(exchange: Exchange) -> None:
    """Answer a request, or see to it that it will be answered. The boundary: nothing is raised from here."""
    try:
        methods = _BY_PATH.get(exchange.path)
        route = methods.get(exchange.method) if methods else None
        if route is None:
            route = find(exchange)
        if route.streams:
            exchange.parked = not exchange.connection.is_first(exchange)
            if exchange.parked:
                return
        route.handler(exchange)
    except DriftQError as refused:
        exchange.reply_error(refused)
    except Exception as error:  # noqa: BLE001 - the boundary: logged and answered
        exchange.failed(error)


def find(exchange: Exchange) -> Route:
    """The route of a path that has a topic in it, or is written in full; else the error that says so."""
    path = exchange.path
    if b"://" in path[:12]:  # The whole address, as for a proxy.
        path = b"/" + path.partition(b"://")[2].partition(b"/")[2]
    if path.startswith(_TOPICS) and len(path) > len(_TOPICS):
        name, slash, rest = path[len(_TOPICS) :].partition(b"/")
        exchange.topic = unquote(name, "topic")
        if rest.startswith(_GROUPS):
            group, more, rest = rest[len(_GROUPS) :].partition(b"/")
            exchange.group = unquote(group, "group")
            rest = _GROUPS + b"{group}" + more + rest
        path = _TOPICS + b"{topic}" + slash + rest
    methods = _BY_PATH.get(path)
    if methods is None or b"{topic}" in exchange.path or b"{group}" in exchange.path:
        raise RouteNotFound(exchange.path[:200].decode(errors="replace"))
    route = methods.get(exchange.method)
    if route is None:
        allow = ", ".join(sorted(method.decode() for method in methods))
        raise MethodNotAllowed(exchange.method.decode(), allow=allow)
    return route
