"""Appending by position, as a client sees it.

    opened = client.writer("orders", "importer")        # fences older runs of "importer"
    client.append("orders", messages, writer="importer", epoch=opened.epoch)

Each message has a position that rises within its lane. The server skips positions that the lane has reached,
so an append may be repeated: after a lost response, after a crash, or from the start.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from driftq.client.wire.calls import Calls
from driftq.client.wire.encoding import encode
from driftq.model.wire.append import AppendReceipt, OpenWriter, PositionedMessage
from driftq.transport.paths import topic_path

_receipt = msgspec.json.Decoder(AppendReceipt)
_opened = msgspec.json.Decoder(OpenWriter)


async def open_writer(calls: Calls, topic: str, writer: str, *, epoch: int | None) -> OpenWriter:
    body = encode({"writer": writer} | ({} if epoch is None else {"epoch": epoch}))
    octets = calls.writer.request("POST", f"{topic_path(topic)}/writers", body=body)
    return _opened.decode(await calls.send(octets, repeatable=True))


async def append(
    calls: Calls,
    topic: str,
    messages: Sequence[PositionedMessage],
    *,
    writer: str,
    epoch: int,
    lane: int,
    after: int | None,
) -> AppendReceipt:
    body = {"writer": writer, "lane": lane, "epoch": epoch, "messages": messages}
    if after is not None:
        body["after"] = after
    octets = calls.writer.request("POST", f"{topic_path(topic)}/append", body=encode(body))
    return _receipt.decode(await calls.send(octets, repeatable=True))
