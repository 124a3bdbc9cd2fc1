"""Messages of a writer's lanes, sent in chunks: one request and one durable write for many."""

from __future__ import annotations

from collections.abc import Mapping

from driftq.errors import Overloaded, TopicExists, TopicNotFound
from driftq.model.wire.append import AppendReceipt, OpenWriter, PositionedMessage
from driftq.pipeline.server import Server, topic_path

CHUNK_BYTES = 4 << 20
"""Of keys and values in one request: well below what a server takes."""


class LaneSender:
    """Sends to any topics and lanes, each in the order given. What it has sent is confirmed after `flush`."""

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
        """`confirmed` is what topics are known to have. With `partitions`, a missing topic is made.

        Without an `epoch` the writer begins anew on each topic: its older runs are shut out there.
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
        place = (topic, lane)
        waiting = self._waiting.setdefault(place, [])
        size = self._bytes.get(place, 0) + len(message.key) + len(message.value)
        if waiting and size > CHUNK_BYTES:
            self._flush(place)
            waiting, size = self._waiting[place], len(message.key) + len(message.value)
        waiting.append(message)
        self._bytes[place] = size
        if len(waiting) >= self._chunk:
            self._flush(place)

    def flush(self) -> None:
        for place in list(self._waiting):
            self._flush(place)

    def _flush(self, place: tuple[str, int]) -> None:
        messages, self._waiting[place], self._bytes[place] = self._waiting[place], [], 0
        if messages:
            self._append(*place, messages)

    def _append(self, topic: str, lane: int, messages: list[PositionedMessage]) -> None:
        try:
            receipt = self._ask(topic, lane, messages)
        except TopicNotFound:
            if self._partitions is None:
                raise
            self._create(topic, self._partitions)
            receipt = self._ask(topic, lane, messages)
        except Overloaded:  # Readers were behind for as long as was waited. Fewer at a time may fit.
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
            return  # Made by another in between, in another size: it is taken as it is.
