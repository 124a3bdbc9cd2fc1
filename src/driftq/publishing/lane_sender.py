"""Messages of a writer's lanes, sent in chunks: one request and one durable write for many."""

from __future__ import annotations

from collections.abc import Mapping

from driftq.errors import Overloaded, TopicExists, TopicNotFound
from driftq.model.wire.append import AppendReceipt, OpenWriter, PositionedMessage
from driftq.transport.paths import topic_path
from driftq.transport.server import Server

CHUNK_BYTES = 4 << 20
"""Of keys and values in one request: well below the server's limit."""


class LaneSender:
    """Sends to any topics and lanes, each in the order given. Everything sent is confirmed after `flush`."""

    def __init__(
        self,
        server: Server,
        *,
        writer: str,
        epoch: int | None,
        chunk: int,
        confirmed: Mapping[str, Mapping[int, int]] | None = None,
        partitions: int | None = None,
    ) -> None:
        """`confirmed` are the confirmed positions of topics. With `partitions`, a missing topic is created.

        Without an `epoch` the writer opens a new one on each topic, which fences its older runs there.
        """
        self._server = server
        self._writer = writer
        self._epoch = epoch
        self._chunk = chunk
        self._confirmed = confirmed or {}
        self._partitions = partitions
        self._epochs: dict[str, int] = {}
        self._waiting: dict[tuple[str, int], list[PositionedMessage]] = {}
        self._bytes: dict[tuple[str, int], int] = {}
        self.appended = 0
        self.skipped = 0
        self.moved: dict[str, dict[int, int]] = {}
        """Of each topic and lane the last position that was confirmed here."""

    def send(self, topic: str, lane: int, message: PositionedMessage) -> None:
        """Take a message; a full chunk goes out at once."""
        topic_lane = (topic, lane)
        waiting = self._waiting.setdefault(topic_lane, [])
        size = self._bytes.get(topic_lane, 0) + len(message.key) + len(message.value)
        if waiting and size > CHUNK_BYTES:
            self._flush(topic_lane)
            waiting, size = self._waiting[topic_lane], len(message.key) + len(message.value)
        waiting.append(message)
        self._bytes[topic_lane] = size
        if len(waiting) >= self._chunk:
            self._flush(topic_lane)

    def flush(self) -> None:
        for topic_lane in list(self._waiting):
            self._flush(topic_lane)

    def _flush(self, topic_lane: tuple[str, int]) -> None:
        messages, self._waiting[topic_lane], self._bytes[topic_lane] = self._waiting[topic_lane], [], 0
        if messages:
            self._append(*topic_lane, messages)

    def _append(self, topic: str, lane: int, messages: list[PositionedMessage]) -> None:
        try:
            receipt = self._ask(topic, lane, messages)
        except TopicNotFound:
            if self._partitions is None:
                raise
            self._create(topic, self._partitions)
            receipt = self._ask(topic, lane, messages)
        except Overloaded:  # Readers stayed behind for the whole wait. Fewer at a time may fit.
            half = len(messages) // 2
            if not half:
                raise
            self._append(topic, lane, messages[:half])
            self._append(topic, lane, messages[half:])
            return
        self.appended += receipt.appended
        self.skipped += receipt.skipped
        self.moved.setdefault(topic, {})[lane] = receipt.position

    def _ask(self, topic: str, lane: int, messages: list[PositionedMessage]) -> AppendReceipt:
        epoch = self._begin(topic) if self._epoch is None else self._epoch
        body = {"writer": self._writer, "lane": lane, "epoch": epoch, "messages": messages}
        certain = self.moved.get(topic, {}).get(lane, self._confirmed.get(topic, {}).get(lane))
        if certain is not None:
            body["after"] = certain
        return self._server.post(topic_path(topic, "/append"), body, AppendReceipt)

    def _begin(self, topic: str) -> int:
        if topic not in self._epochs:
            opened = self._server.post(topic_path(topic, "/writers"), {"writer": self._writer}, OpenWriter)
            self._epochs[topic] = opened.epoch
        return self._epochs[topic]

    def _create(self, topic: str, partitions: int) -> None:
        try:
            self._server.post("/v1/topics", {"name": topic, "partitions": partitions}, object)
        except TopicExists:
            return  # Created by another writer meanwhile, in another size: it is used as it is.
