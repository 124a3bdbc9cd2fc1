"""The routes of topics, messages and the server itself."""

from driftq.http.api.route import ResponseSpec, Route
from driftq.http.dlq import handler_letters
from driftq.http.dlq import handlers as dlq
from driftq.http.messages import append, batch, records
from driftq.http.messages import handlers as messages
from driftq.http.system import handlers as system
from driftq.http.topics import delete
from driftq.http.topics import handlers as topics
from driftq.model.wire.append import AppendBody, AppendReceipt, OpenWriter, WriterBody
from driftq.model.wire.dlq import (
    DeadLettersReply,
    DeadLetterTopicsReply,
    DlqQuery,
    PurgeBody,
    Purged,
    RedriveBody,
    Redriven,
)
from driftq.model.wire.fields import PageQuery
from driftq.model.wire.handler_letters import HandlerLettersBody, PublishedLettersReply
from driftq.model.wire.messages import ConsumeBody, DeliveryLine, RecordedMessage, RecordsQuery
from driftq.model.wire.produce import BatchBody, BatchQuery, BatchReply, ProduceBody, ProduceQuery, Receipt
from driftq.model.wire.settle import AckBatchBody, AckBatchReply, AckBody, ExtendBody, NackBody
from driftq.model.wire.system import ReadyReply, StatusReply, VersionReply
from driftq.model.wire.topics import (
    CreatedReply,
    ReaderBody,
    ResetBody,
    SpansBody,
    SpansReply,
    TopicBody,
    TopicsReply,
    TopicView,
)

_NDJSON = "application/x-ndjson"

BROKER_ROUTES = (
    Route(
        method="GET",
        path="/v1/healthz",
        handler=system.healthz,
        summary="The process is alive",
        responses={200: ResponseSpec(text="Alive", body=StatusReply)},
    ),
    Route(
        method="GET",
        path="/v1/readyz",
        handler=system.readyz,
        summary="The server is ready for work",
        responses={
            200: ResponseSpec(text="Ready, with warnings if any; else 503 with the reason", body=ReadyReply)
        },
    ),
    Route(
        method="GET",
        path="/v1/version",
        handler=system.version,
        summary="Version, and how durable a confirmed message is",
        responses={200: ResponseSpec(text="Version", body=VersionReply)},
    ),
    Route(
        method="GET",
        path="/v1/topics",
        handler=topics.list_topics,
        summary="List topics by name",
        query=PageQuery,
        responses={200: ResponseSpec(text="Names", body=TopicsReply)},
    ),
    Route(
        method="POST",
        path="/v1/topics",
        handler=topics.create_topic,
        summary="Create a topic",
        query=TopicBody,
        body=TopicBody,
        responses={201: ResponseSpec(text="The topic exists", body=CreatedReply)},
        errors=(409,),
    ),
    Route(
        method="GET",
        path="/v1/topics/{topic}",
        handler=topics.show_topic,
        summary="A topic's partitions, groups and readers",
        responses={200: ResponseSpec(text="The durable state", body=TopicView)},
        errors=(404,),
    ),
    Route(
        method="DELETE",
        path="/v1/topics/{topic}",
        handler=delete.delete_topic,
        summary="Delete a topic with everything in it",
        responses={200: ResponseSpec(text="Deleted", body=StatusReply)},
        errors=(404,),
    ),
    Route(
        method="POST",
        path="/v1/topics/{topic}/groups/{group}/reset",
        handler=delete.reset_group,
        summary="Reset a group to another offset",
        query=ResetBody,
        body=ResetBody,
        responses={200: ResponseSpec(text="It does", body=StatusReply)},
        errors=(404,),
    ),
    Route(
        method="DELETE",
        path="/v1/topics/{topic}/groups/{group}",
        handler=delete.delete_group,
        summary="Delete a group with its progress",
        responses={200: ResponseSpec(text="Deleted", body=StatusReply)},
        errors=(404,),
    ),
    Route(
        method="GET",
        path="/v1/topics/{topic}/records",
        handler=records.records,
        summary="Read stored messages without a group",
        query=RecordsQuery,
        responses={200: ResponseSpec(text="One message a line", body=RecordedMessage, content_type=_NDJSON)},
        errors=(404,),
        streams=True,
    ),
    Route(
        method="POST",
        path="/v1/topics/{topic}/spans",
        handler=records.spans,
        summary="Count messages between offsets",
        query=SpansBody,
        body=SpansBody,
        responses={200: ResponseSpec(text="The durable state", body=SpansReply)},
        errors=(404,),
    ),
    Route(
        method="POST",
        path="/v1/topics/{topic}/readers",
        handler=records.report_reader,
        summary="Report a reader's progress",
        query=ReaderBody,
        body=ReaderBody,
        responses={204: ResponseSpec(text="Noted")},
        errors=(404,),
    ),
    Route(
        method="POST",
        path="/v1/topics/{topic}/writers",
        handler=append.open_writer,
        summary="Open a writer and fence its older runs",
        query=WriterBody,
        body=WriterBody,
        responses={200: ResponseSpec(text="The epoch is current", body=OpenWriter)},
        errors=(404, 409),
    ),
    Route(
        method="POST",
        path="/v1/topics/{topic}/append",
        handler=append.append,
        summary="Append messages by position, each stored once however often it is sent",
        body=AppendBody,
        responses={200: ResponseSpec(text="All messages are durable", body=AppendReceipt)},
        errors=(404, 409, 429),
        notes="All or nothing. A message whose position the lane has passed is skipped.",
    ),
    Route(
        method="GET",
        path="/v1/dlq",
        handler=dlq.list_dlqs,
        summary="List the topics that have dead letters",
        responses={200: ResponseSpec(text="Dead-letter topics", body=DeadLetterTopicsReply)},
    ),
    Route(
        method="GET",
        path="/v1/dlq/{topic}",
        handler=dlq.show_dlq,
        summary="List a topic's dead letters",
        query=DlqQuery,
        responses={200: ResponseSpec(text="Dead letters by offset", body=DeadLettersReply)},
        errors=(404,),
    ),
    Route(
        method="POST",
        path="/v1/dlq/{topic}/redrive",
        handler=dlq.redrive,
        summary="Redrive dead letters, each once",
        body=RedriveBody,
        responses={
            200: ResponseSpec(text="How many were selected and redriven; which were not", body=Redriven)
        },
        errors=(404, 409),
    ),
    Route(
        method="POST",
        path="/v1/dlq/{topic}/purge",
        handler=dlq.purge,
        summary="Purge dead letters",
        body=PurgeBody,
        responses={200: ResponseSpec(text="How many were selected and removed", body=Purged)},
        errors=(404,),
    ),
    Route(
        method="POST",
        path="/v1/dlq/{topic}/letters",
        handler=handler_letters.publish,
        summary="Store dead letters of workers and projections, each once",
        body=HandlerLettersBody,
        responses={200: ResponseSpec(text="One result for each dead letter", body=PublishedLettersReply)},
        notes="For the pipeline's relays. Of each id one dead letter is stored, that of the highest "
        "`redrives`. A purge forgets the id. The dead-letter topic is created if it is missing.",
    ),
    Route(
        method="POST",
        path="/v1/produce",
        handler=messages.produce,
        summary="Produce a message",
        query=ProduceQuery,
        body=ProduceBody,
        responses={200: ResponseSpec(text="The message is durable", body=Receipt)},
        errors=(404, 409, 429),
    ),
    Route(
        method="POST",
        path="/v1/produce/batch",
        handler=batch.produce_batch,
        summary="Produce many messages with one durable write",
        query=BatchQuery,
        body=BatchBody,
        lines=ProduceBody,
        responses={
            200: ResponseSpec(
                text="A result for each message, in order; or one range of offsets, with `brief`",
                body=BatchReply,
            )
        },
        errors=(404, 409, 429),
        notes="Where a batch is atomic and refused, the error also has `results`.",
    ),
    Route(
        method="GET",
        path="/v1/consume",
        handler=messages.consume,
        summary="Receive messages as a stream",
        query=ConsumeBody,
        responses={200: ResponseSpec(text="One delivery a line", body=DeliveryLine, content_type=_NDJSON)},
        errors=(404,),
        streams=True,
        notes="The parameters may also be a JSON body.",
    ),
    Route(
        method="POST",
        path="/v1/ack",
        handler=messages.ack,
        summary="Ack a message",
        query=AckBody,
        body=AckBody,
        responses={204: ResponseSpec(text="Settled, now or before")},
        errors=(404, 409),
    ),
    Route(
        method="POST",
        path="/v1/nack",
        handler=messages.nack,
        summary="Nack a message: redeliver it, or dead-letter it",
        query=NackBody,
        body=NackBody,
        responses={204: ResponseSpec(text="It will be redelivered, or is a dead letter")},
        errors=(404, 409),
    ),
    Route(
        method="POST",
        path="/v1/ack/batch",
        handler=messages.ack_batch,
        summary="Ack many messages",
        query=AckBatchBody,
        body=AckBatchBody,
        responses={200: ResponseSpec(text="A result for each ack, in order", body=AckBatchReply)},
        errors=(404,),
    ),
    Route(
        method="POST",
        path="/v1/lease/extend",
        handler=messages.extend,
        summary="Extend the lease on a message",
        query=ExtendBody,
        body=ExtendBody,
        responses={204: ResponseSpec(text="The lease ends `lease_ms` from now")},
        errors=(404, 409),
    ),
    Route(
        method="POST",
        path="/v1/seal",
        handler=system.seal,
        summary="Bring tables and history up to date",
        responses={200: ResponseSpec(text="Everything durable before the call is in them", body=StatusReply)},
    ),
    Route(
        method="GET",
        path="/v1/metrics",
        handler=system.metrics,
        summary="Metrics for Prometheus",
        responses={200: ResponseSpec(text="Prometheus text format", content_type="text/plain")},
    ),
    Route(
        method="GET",
        path="/v1/docs",
        handler=system.docs,
        summary="This document as a page",
        responses={200: ResponseSpec(text="HTML", content_type="text/html")},
    ),
)
