"""Requests as bytes, and responses decoded."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import msgspec

from driftq.client.producing.outgoing import Outgoing
from driftq.errors import DriftQError, InvalidArgument
from driftq.model.wire.messages import AckBatchReply, AckPart
from driftq.model.wire.produce import BatchReply, Receipt
from driftq.transport.errors import read_error, rebuild
from driftq.transport.paths import Query, query_text

JSON = b"application/json"
NDJSON = b"application/x-ndjson"

_encoder = msgspec.json.Encoder()


class _Results(msgspec.Struct):
    """Results some of which are errors: these have fields of their own."""

    results: list[dict[str, Any]]


_batch_reply = msgspec.json.Decoder(BatchReply)
_ack_reply = msgspec.json.Decoder(AckBatchReply)
_results = msgspec.json.Decoder(_Results)


class RequestWriter:
    """Writes requests for one server."""

    def __init__(self, *, host: str, prefix: str, headers: Mapping[str, str]) -> None:
        self._prefix = prefix
        self._head = "".join(f"{name}: {value}\r\n" for name, value in {"Host": host, **headers}.items())

    def request(
        self,
        method: str,
        path: str,
        *,
        query: Query | None = None,
        body: bytes | None = None,
        content_type: bytes = JSON,
    ) -> bytes:
        target = self._prefix + path + query_text(query)
        head = f"{method} {target} HTTP/1.1\r\n{self._head}".encode()
        if body is None:
            return head + b"\r\n"
        return b"%bContent-Type: %b\r\nContent-Length: %d\r\n\r\n%b" % (head, content_type, len(body), body)

    def produce_batch(self, messages: Sequence[Outgoing], *, atomic: bool = False) -> bytes:
        body = _encoder.encode_lines(messages)
        query: Query = {"brief": True, "atomic": True} if atomic else {"brief": True}
        return self.request("POST", "/v1/produce/batch", query=query, body=body, content_type=NDJSON)

    def ack_batch(self, topic: str, group: str, owner: str, acks: Sequence[AckPart]) -> bytes:
        body = encode({"topic": topic, "group": group, "owner": owner, "acks": acks})
        return self.request("POST", "/v1/ack/batch", body=body)


def encode(content: Any) -> bytes:
    return _encoder.encode(content)


def reset_target(to: str | int | datetime) -> str | int:
    """The target of a group reset as the server expects it; raises InvalidArgument."""
    if not isinstance(to, datetime):
        return to
    if to.tzinfo is None:
        raise InvalidArgument("to", "needs a time zone")
    return to.isoformat()


def read_receipts(status: int, body: bytes) -> Sequence[Receipt | DriftQError]:
    """A receipt or an error for each message of a batch; raises the error of the request."""
    if status != 200:
        raise read_error(status, body)
    try:
        return _batch_reply.decode(body).receipts()
    except msgspec.ValidationError:
        return [
            rebuild(result) if "error" in result else msgspec.convert(result, Receipt)
            for result in _results.decode(body).results
        ]


def read_acks(status: int, body: bytes) -> Sequence[DriftQError | None]:
    """None or an error for each ack of a batch; raises the error of the request."""
    if status != 200:
        raise read_error(status, body)
    try:
        return [None] * len(_ack_reply.decode(body).results)
    except msgspec.ValidationError:
        return [rebuild(result) if "error" in result else None for result in _results.decode(body).results]
