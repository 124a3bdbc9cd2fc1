"""DriftQ's own topics as the transport."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import msgspec

from driftq.errors import TopicNotFound
from driftq.model import TopicView
from driftq.model.options.pipeline import PipelineOptions
from driftq.pipeline.source.waits import MAX_WAIT
from driftq.pipeline.transport.port import TopicSubscription
from driftq.pipeline.transport.resume import by_topic
from driftq.transport.paths import topic_path
from driftq.transport.server import Server, check_server

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from driftq.sinks import TopicPartition


class DriftqTransport:
    """The topics of one server. Offsets of a topic are never used again, so late lookups are safe."""

    name = "driftq"

    def waits(self, subscription: TopicSubscription) -> bool:
        return len(subscription.topics) == 1

    def __init__(self, options: PipelineOptions) -> None:
        self._options = options
        self._server = Server(options.url, credentials=options.credentials)

    def check(self) -> None:
        check_server(self._options.url, self._options.credentials)

    def identities(self, subscription: TopicSubscription) -> dict[str, str]:
        every = self._server.get("/v1/topics", dict[str, list[str]])["topics"]
        names = [name for name in every if subscription.matches(name)]
        found: dict[str, str] = {}
        for name in names:
            try:
                found[name] = self._identity(name)
            except TopicNotFound:
                continue  # Deleted since the names were listed.
        return found

    def late_identity(self, topic: str) -> str:
        try:
            return self._identity(topic)
        except TopicNotFound:
            return ""  # Deleted since it was read: its messages are applied, and its position means nothing.

    def stream(
        self,
        spark: SparkSession,
        subscription: TopicSubscription,
        *,
        reader: str,
        starting: Mapping[TopicPartition, int],
        messages_max: int,
        newest_by: str | None = None,
        identities: Mapping[str, str] | None = None,
        headers: bool = False,
    ) -> DataFrame:
        """`headers`: the rows have the column `headers` too. Of no use here are `identities`."""
        options = subscription.options | {
            "url": self._options.url,
            "data": self._options.data,
            "reader": reader,
            "maxOffsetsPerTrigger": str(messages_max),
            "maxWait": MAX_WAIT,
        }
        if starting:
            options["startingOffsets"] = offsets_text(starting)
        if newest_by is not None:
            options["newestBy"] = newest_by
        if headers:
            options["includeHeaders"] = "true"
        return spark.readStream.format("driftq").options(**options).load()

    def close(self) -> None:
        self._server.close()

    def _identity(self, topic: str) -> str:
        return identity_of(self._server.get(topic_path(topic), TopicView))


def identity_of(view: TopicView) -> str:
    """A server of an earlier version has no ids: then the name is all there is."""
    return f"driftq/{view.id}" if view.id else ""


def offsets_text(offsets: Mapping[TopicPartition, int]) -> str:
    """In the form of `startingOffsets`; a partition that is not named is read from its start."""
    return msgspec.json.encode(by_topic(offsets)).decode()
