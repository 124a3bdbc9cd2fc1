"""Topics: list, create, show."""

from __future__ import annotations

from typing import Any

from driftq.core.state import State
from driftq.http.api.params import Form, check_tenant
from driftq.http.reads import walk_state
from driftq.http.wire.exchange import Exchange
from driftq.model import TopicOptions
from driftq.model.topic import TABLE_PREFIX
from driftq.model.wire.fields import PageQuery, Request
from driftq.model.wire.topics import CreatedReply, TopicBody, TopicsReply, TopicView
from driftq.server.requests import ReadRequest, TopicRequest
from driftq.server.topics.views import topic_view, walk_topic_names
from driftq.server.walk import Walk

PAGE = Form(PageQuery)
TOPIC = Form(TopicBody)
NOTHING = Form(Request)


def list_topics(exchange: Exchange) -> None:
    asked = PAGE.read(exchange.body, exchange.query)
    exchange.edge.spawn(exchange, _list_topics(exchange, asked))


async def _list_topics(exchange: Exchange, asked: PageQuery) -> None:
    def names(state: State) -> Walk[list[str]]:
        return walk_topic_names(state, exchange.shows, after=asked.after, at_most=asked.limit)

    exchange.reply_json(TopicsReply(await walk_state(exchange.edge, names)))


def create_topic(exchange: Exchange) -> None:
    asked = TOPIC.read(exchange.body, exchange.query)
    partitions = 1 if asked.partitions is None else asked.partitions
    table = asked.name.startswith(TABLE_PREFIX) if asked.table is None else asked.table
    options = TopicOptions(asked.retention_ms, asked.retention_bytes, table)
    check_tenant(asked.tenant)
    tenant = exchange.require_tenant(asked.tenant) or ""

    def send(_: Any) -> None:
        exchange.reply_json(CreatedReply("created", asked.name, partitions), status=201)

    reply, alone = exchange.answering(send), exchange.tenant is not None
    exchange.edge.engine.submit(TopicRequest(asked.name, partitions, options, reply, tenant, alone))


def show_topic(exchange: Exchange) -> None:
    NOTHING.read(exchange.body, exchange.query)

    def query(state: State) -> TopicView:
        return topic_view(
            state,
            exchange.topic,
            streams=engine.stages.consumers.streams(exchange.topic),
            cluster_id=exchange.edge.options.cluster_id,
        )

    engine = exchange.edge.engine
    engine.read(ReadRequest(query, exchange.answering(exchange.reply_json)))
