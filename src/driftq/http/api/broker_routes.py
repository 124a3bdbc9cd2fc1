"""The routes of topics, messages and the server itself."""

from driftq.http.api import replies, schemas
from driftq.http.api.route import ResponseSpec, Route
from driftq.http.dlq import handlers as dlq
from driftq.http.dlq import schemas as dlq_schemas
from driftq.http.messages import append, batch, consume, produce, records, settle, spans
from driftq.http.system import handlers as system
from driftq.http.topics import delete as endings
from driftq.http.topics import handlers as topics
from driftq.model import DeliveryLine
from driftq.server.topics.views import TopicView

_NDJSON = "application/x-ndjson"

BROKER_ROUTES = (
    Route(
        method="GET",
        path="/v1/healthz",
        handler=system.healthz,
        summary="The process is alive",
        answers={200: ResponseSpec(text="Alive", body=replies.StatusReply)},
    ),
    Route(
        method="GET",
        path="/v1/readyz",
        handler=system.readyz,
        summary="The server can do its work",
        answers={
            200: ResponseSpec(
                text="Ready, with warnings if there are any; 503 says why not", body=replies.ReadyReply
            )
        },
    ),
    Route(
        method="GET",
        path="/v1/version",
        handler=system.version,
        summary="Version, and how durable a confirmed message is",
        answers={200: ResponseSpec(text="Version", body=replies.VersionReply)},
    ),
    Route(
        method="GET",
        path="/v1/topics",
        handler=topics.list_topics,
        summary="List topics by name",
        query=schemas.PageQuery,
        answers={200: ResponseSpec(text="Names", body=replies.TopicsReply)},
    ),
    Route(
        method="POST",
        path="/v1/topics",
        handler=topics.create_topic,
        summary="Create a topic",
        query=schemas.TopicBody,
        body=schemas.TopicBody,
        answers={201: ResponseSpec(text="It is there", body=replies.CreatedReply)},
        errors=(409,),
    ),
    Route(
        method="GET",
        path="/v1/topics/{topic}",
        handler=topics.show_topic,
        summary="A topic's partitions, groups and readers",
        answers={200: ResponseSpec(text="As it is on disk", body=TopicView)},
        errors=(404,),
    ),
    Route(
        method="DELETE",
        path="/v1/topics/{topic}",
        handler=endings.delete_topic,
        summary="Delete a topic with everything in it",
        answers={200: ResponseSpec(text="It is gone", body=replies.StatusReply)},
        errors=(404,),
    ),
    Route(
        method="POST",
        path="/v1/topics/{topic}/groups/{group}/reset",
        handler=endings.reset_group,
        summary="Let a group go on from somewhere else",
        query=schemas.ResetBody,
        body=schemas.ResetBody,
        answers={200: ResponseSpec(text="It does", body=replies.StatusReply)},
        errors=(404,),
    ),
    Route(
        method="DELETE",
        path="/v1/topics/{topic}/groups/{group}",
        handler=endings.delete_group,
        summary="Delete a group with its progress",
        answers={200: ResponseSpec(text="It is gone", body=replies.StatusReply)},
        errors=(404,),
    ),
    Route(
        method="GET",
        path="/v1/topics/{topic}/records",
        handler=records.records,
        summary="Read stored messages without a group",
        query=schemas.RecordsQuery,
        answers={200: ResponseSpec(text="One message a line", body=replies.RecordLine, content_type=_NDJSON)},
        errors=(404,),
        streams=True,
    ),
    Route(
        method="POST",
        path="/v1/topics/{topic}/spans",
        handler=spans.spans,
        summary="Count messages between offsets",
        query=schemas.SpansBody,
        body=schemas.SpansBody,
        answers={200: ResponseSpec(text="As it is on disk", body=replies.SpansReply)},
        errors=(404,),
    ),
    Route(
        method="POST",
        path="/v1/topics/{topic}/readers",
        handler=topics.report_reader,
        summary="Report how far a reader is",
        query=schemas.ReaderBody,
        body=schemas.ReaderBody,
        answers={204: ResponseSpec(text="Noted")},
        errors=(404,),
    ),
    Route(
        method="POST",
        path="/v1/topics/{topic}/writers",
        handler=append.open_writer,
        summary="Begin as a writer, shutting out older runs of it",
        query=schemas.WriterBody,
        body=schemas.WriterBody,
        answers={200: ResponseSpec(text="The epoch is in force", body=replies.WriterReply)},
        errors=(404, 409),
    ),
    Route(
        method="POST",
        path="/v1/topics/{topic}/append",
        handler=append.append,
        summary="Append messages by position, each once however often it is sent",
        body=schemas.AppendBody,
        answers={200: ResponseSpec(text="All of them are durable", body=replies.AppendedReply)},
        errors=(404, 409, 429),
        notes="All or nothing. A message whose position the lane has passed is skipped.",
    ),
    Route(
        method="GET",
        path="/v1/dlq",
        handler=dlq.list_dlqs,
        summary="Which topics have dead letters",
        answers={200: ResponseSpec(text="Dead-letter topics", body=dlq_schemas.DlqsReply)},
    ),
    Route(
        method="GET",
        path="/v1/dlq/{topic}",
        handler=dlq.show_dlq,
        summary="The dead letters of a topic",
        query=dlq_schemas.DlqQuery,
        answers={200: ResponseSpec(text="Dead letters by offset", body=dlq_schemas.LettersReply)},
        errors=(404,),
    ),
    Route(
        method="POST",
        path="/v1/dlq/{topic}/redrive",
        handler=dlq.redrive,
        summary="Send dead letters again, each once",
        body=dlq_schemas.RedriveBody,
        answers={
            200: ResponseSpec(
                text="How many were meant and sent, and which not", body=dlq_schemas.RedriveReply
            )
        },
        errors=(404, 409),
    ),
    Route(
        method="POST",
        path="/v1/dlq/{topic}/purge",
        handler=dlq.purge,
        summary="Forget dead letters",
        body=dlq_schemas.PurgeBody,
        answers={200: ResponseSpec(text="How many were meant and are gone", body=dlq_schemas.PurgeReply)},
        errors=(404,),
    ),
    Route(
        method="POST",
        path="/v1/produce",
        handler=produce.produce,
        summary="Produce a message",
        query=schemas.ProduceQuery,
        body=schemas.ProduceBody,
        answers={200: ResponseSpec(text="It is durable", body=replies.ProducedReply)},
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
        answers={
            200: ResponseSpec(
                text="A result for each message, in order; or all at once, with `brief`",
                body=replies.BatchReply,
            )
        },
        errors=(404, 409, 429),
        notes="Where a batch is atomic and refused, the error also has `results`.",
    ),
    Route(
        method="GET",
        path="/v1/consume",
        handler=consume.consume,
        summary="Receive messages as a stream",
        query=schemas.ConsumeBody,
        answers={200: ResponseSpec(text="One delivery a line", body=DeliveryLine, content_type=_NDJSON)},
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
        answers={204: ResponseSpec(text="Settled, now or before")},
        errors=(404, 409),
    ),
    Route(
        method="POST",
        path="/v1/nack",
        handler=settle.nack,
        summary="A message failed or was not started: deliver it again, or never",
        query=schemas.NackBody,
        body=schemas.NackBody,
        answers={204: ResponseSpec(text="It comes again, or is a dead letter")},
        errors=(404, 409),
    ),
    Route(
        method="POST",
        path="/v1/ack/batch",
        handler=settle.ack_batch,
        summary="Done with many messages",
        query=schemas.AckBatchBody,
        body=schemas.AckBatchBody,
        answers={200: ResponseSpec(text="A result for each ack, in order", body=replies.AckBatchReply)},
        errors=(404,),
    ),
    Route(
        method="POST",
        path="/v1/lease/extend",
        handler=settle.extend,
        summary="Keep a message longer",
        query=schemas.ExtendBody,
        body=schemas.ExtendBody,
        answers={204: ResponseSpec(text="The lease ends `lease_ms` from now")},
        errors=(404, 409),
    ),
    Route(
        method="POST",
        path="/v1/seal",
        handler=system.seal,
        summary="Bring tables and history up to now",
        answers={
            200: ResponseSpec(text="Everything durable before the call is in them", body=replies.StatusReply)
        },
    ),
    Route(
        method="GET",
        path="/v1/metrics",
        handler=system.metrics,
        summary="Numbers for Prometheus",
        answers={200: ResponseSpec(text="Prometheus text format", content_type="text/plain")},
    ),
    Route(
        method="GET",
        path="/v1/docs",
        handler=system.docs,
        summary="This document as a page",
        answers={200: ResponseSpec(text="HTML", content_type="text/html")},
    ),
)
