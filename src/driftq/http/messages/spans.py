"""POST /v1/topics/{topic}/spans: how many messages lie between offsets, and where to cut them.

Offsets have holes in a partition: a reader uses this to cut them into equal pieces. It changes nothing.
"""

from __future__ import annotations

from driftq.core.index import PartitionIndex
from driftq.core.state import State, Topic
from driftq.errors import InvalidArgument
from driftq.http.api.params import Form
from driftq.http.wire.exchange import Exchange
from driftq.model.wire.topics import SpanBody, SpanReply, SpansBody, SpansReply
from driftq.server.requests import ReadRequest
from driftq.server.topics.views import find_topic

SPANS = Form(SpansBody)
CUTS_MAX = 10_000


def spans(exchange: Exchange) -> None:
    asked = SPANS.read(exchange.body, exchange.query)
    instance = exchange.edge.options.instance

    def query(state: State) -> SpansReply:
        topic = find_topic(state, exchange.topic)
        wanted = asked.spans
        if wanted is None:
            wanted = [SpanBody(partition=number) for number in range(len(topic.partitions))]
        found = [find_span(topic, span) for span in wanted]
        return SpansReply(
            instance, topic.next_offset, len(topic.partitions), table=topic.options.table, spans=found
        )

    exchange.edge.engine.read(ReadRequest(query, exchange.answering(exchange.reply_json)))


def find_span(topic: Topic, span: SpanBody) -> SpanReply:
    """The messages of a span in the topic as it is now."""
    if not 0 <= span.partition < len(topic.partitions):
        raise InvalidArgument("partition", f"must be from 0 to {len(topic.partitions) - 1}")
    index = topic.partitions[span.partition].index
    from_ = span.from_ or 0
    start = index.first_ordinal_from(from_)
    stop = index.end if span.to is None else max(start, min(index.end, index.first_ordinal_from(span.to)))
    if span.limit is not None:
        stop = min(stop, start + span.limit)
    return SpanReply(
        partition=span.partition,
        first_offset=index.first_offset,
        from_=from_,
        to=index.offset_at(stop - 1) + 1 if stop > start else from_,
        messages=stop - start,
        behind=index.end - start,
        cuts=[] if span.every is None else _cuts(index, range(start, stop), span.every),
    )


def _cuts(index: PartitionIndex, ordinals: range, every: int) -> list[int]:
    cuts = range(ordinals.start + every, ordinals.stop, every)
    if len(cuts) > CUTS_MAX:
        raise InvalidArgument("every", f"would give {len(cuts)} cuts, more than {CUTS_MAX}")
    return [index.offset_at(ordinal) for ordinal in cuts]
