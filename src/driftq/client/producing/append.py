"""Appending by position, as a client sees it.

    opened = client.writer("orders", "importer")        # older runs of "importer" are shut out from here on
    client.append("orders", messages, writer="importer", epoch=opened.epoch)

Each message has a position that rises within its lane. What the lane has already is skipped, so an append may
be repeated as often as it takes: after a lost answer, a crash, or from the start.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from driftq.client.wire.calls import Calls
from driftq.client.wire.encoding import encode, topic_path
from driftq.model.wire.append import AppendReceipt, OpenWriter, PositionedMessage

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
