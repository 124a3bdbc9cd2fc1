"""GET /v1/consume: a stream of deliveries, one JSON object a line, for as long as the client stays."""

from __future__ import annotations

from driftq.core.lease import Credit
from driftq.errors import DriftQError
from driftq.http.api.params import Form, check_name
from driftq.http.wire.exchange import Exchange
from driftq.http.wire.responses import LAST_CHUNK, NDJSON, chunk
from driftq.model.wire.messages import ConsumeBody
from driftq.server.requests import DrainedRequest, JoinRequest, LeaveRequest

CONSUME = Form(ConsumeBody)


def consume(exchange: Exchange) -> None:
    asked = CONSUME.read(exchange.body, exchange.query)
    check_name("group", asked.group)
    check_name("owner", asked.owner)
    stream = ConsumeStream(exchange, asked)
    exchange.edge.engine.submit(JoinRequest(stream, stream.joined))


class ConsumeStream:
    """A consumer of a group, as long as its connection lasts."""

    def __init__(self, exchange: Exchange, params: ConsumeBody) -> None:
        edge = exchange.edge
        self.topic = params.topic
        self.group = params.group
        self.owner = params.owner
        self.lease_ms = params.lease_ms or edge.broker.options.limits.ack_timeout_ms
        self.prefetch = params.prefetch or edge.options.prefetch
        self.prefetch_bytes = edge.options.prefetch_bytes
        self.latest = params.start == "latest"
        self.release_on_close = params.release_on_close is True
        self.credit = Credit()
        self._exchange = exchange
        self._connection = exchange.connection
        self._edge = edge
        self._chunked = not exchange.old
        self._open = False

    def joined(self, refused: DriftQError | None) -> None:
        """The engine has decided: the headers go out before there is a message."""
        if refused is not None:
            self._leave()  # An unconfirmed join may still take effect.
            self._exchange.reply_error(refused)
            return
        if not self._connection.is_first(self._exchange):
            self._leave()  # The client did not wait.
            return
        self._open = True
        self._edge.streams.add(self)
        self._edge.counters.streams += 1
        head = self._edge.heads.stream(content_type=NDJSON, chunked=self._chunked, close=True)
        self._connection.begin(self._exchange, head, self)
        self._connection.listen_no_more()

    def _leave(self) -> None:
        self._edge.engine.submit(LeaveRequest(self))

    # What the broker calls on a consumer

    def send(self, lines: bytes) -> None:
        if self._open:
            self._connection.write(chunk(lines) if self._chunked else lines)

    def unsent_bytes(self) -> int:
        return self._connection.unsent_bytes()

    def end(self) -> None:
        """The server closes the stream."""
        if self._open:
            self._open = False
            self._edge.streams.discard(self)
            if self._chunked:
                self._connection.write(LAST_CHUNK)
            self._leave()
            self._connection.close()

    # What the connection calls on a stream

    def resumed(self) -> None:
        self._edge.engine.submit(DrainedRequest(self.topic, self.group))

    def lost(self) -> None:
        if self._open:
            self._open = False
            self._edge.streams.discard(self)
            self._leave()
