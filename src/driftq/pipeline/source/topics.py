"""The topics of a query in their current state on the server."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from driftq.errors import MessagesExpired, TopicNotFound, TopicStartedOver
from driftq.model.time import parse_rfc3339
from driftq.model.wire.topics import SpanReply, SpansReply
from driftq.pipeline.source.lag import without_notes
from driftq.pipeline.source.offsets import Bounds, Offsets
from driftq.pipeline.source.options import TopicSourceOptions
from driftq.transport.paths import Query, topic_path
from driftq.transport.server import Server


class DatedMessage(NamedTuple):
    """The offset of a message, and when it was produced."""

    offset: int
    produced_ms: int


class _DatedLine(msgspec.Struct):
    """The used part of a line of `/records`."""

    offset: int
    timestamp: str


_decode_lines = msgspec.json.Decoder(_DatedLine).decode_lines


class Topics:
    """Requests to the server about the topics of a query."""

    def __init__(self, options: TopicSourceOptions) -> None:
        self._options = options
        self._server = Server(options.url, credentials=options.credentials)
        self._reported: Offsets = {}

    def names(self) -> Sequence[str]:
        """The topics that are subscribed to; with a pattern, those that exist now."""
        if self._options.pattern is None:
            return self._options.topics
        every = self._server.get("/v1/topics", dict[str, list[str]])["topics"]
        return [name for name in every if re.fullmatch(self._options.pattern, name)]

    def bounds(self, *, strict: bool) -> dict[str, dict[str, Bounds]]:
        """First and end of every partition. A missing topic is left out, or raises if `strict`."""
        found: dict[str, dict[str, Bounds]] = {}
        for name in self.names():
            try:
                answer = self.spans(name)
            except TopicNotFound:
                if strict:
                    raise
                continue
            found[name] = {
                str(one.partition): Bounds(one.first_offset, max(one.first_offset, one.to))
                for one in answer.spans
            }
        return found

    def spans(
        self, topic: str, wanted: Iterable[Mapping[str, Any]] | None = None, *, wait_ms: int = 0
    ) -> SpansReply:
        """These spans of a topic; without any, its partitions from end to end. Raises TopicNotFound.

        With `wait_ms` the server waits that long for a message in one of them.
        """
        asked: dict[str, Any] = {} if wanted is None else {"spans": list(wanted)}
        if wait_ms:
            asked["wait_ms"] = wait_ms
        return self._server.post(topic_path(topic, "/spans"), asked, SpansReply)

    def message_from(self, topic: str, partition: int, *, start: int, end: int) -> DatedMessage | None:
        """The first message of a partition from `start` up to, without, `end`, if there is one."""
        asked: Query = {"partition": partition, "from": start, "to": end, "limit": 1}
        lines = _decode_lines(self._server.content(topic_path(topic, "/records"), asked))
        return DatedMessage(lines[0].offset, parse_rfc3339(lines[0].timestamp)) if lines else None

    def report(self, offsets: Offsets) -> None:
        """Report the query's progress, if it has a name; from then on the server keeps unread messages."""
        for topic, partitions in without_notes(offsets).items() if self._options.reader else ():
            if partitions == self._reported.get(topic):
                continue
            body = {"reader": self._options.reader, "offsets": partitions}
            try:
                self._server.post(topic_path(topic, "/readers"), body, type(None))
            except TopicNotFound:
                pass  # The topic was deleted; there is nothing to keep.
            self._reported[topic] = dict(partitions)

    def checked(self, topic: str, span: SpanReply, *, next_offset: int) -> int:
        """Where reading really begins; raises when messages are gone and the query must not skip them."""
        wanted, strict = span.from_, self._options.fail_on_data_loss
        source = f"partition {span.partition} of topic {topic!r}"
        if wanted > next_offset:
            if strict:
                raise TopicStartedOver(source, wanted=wanted, end=next_offset)
            return span.first_offset
        if wanted < span.first_offset:
            if strict:
                raise MessagesExpired(source, wanted=wanted, oldest=span.first_offset)
            return span.first_offset
        return wanted

    def close(self) -> None:
        self._server.close()
