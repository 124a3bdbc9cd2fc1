"""A message that is damaged on disk stops the server instead of being delivered."""

import asyncio
import os
from pathlib import Path

import pytest

from driftq.errors import LogCorrupt
from driftq.log.disk import OsFolder
from tests.support.direct import Listener, start


@pytest.mark.clause("W4")
async def test_damage_found_when_a_message_is_read_is_never_delivered(tmp_path: Path) -> None:
    client = start(OsFolder(str(tmp_path)))
    await client.create("t")
    await client.produce("t", "precious")
    client.engine.payloads.forget()  # As if the newest bytes had long left memory.
    [segment] = [tmp_path / name for name in os.listdir(tmp_path) if name.endswith(".log")]
    content = segment.read_bytes()
    at = content.index(b"precious")
    with segment.open("r+b") as file:
        file.seek(at)
        file.write(b"P")
    listener = await client.join(Listener("t", "g", "w"))
    for _ in range(50):
        if client.fatal:  # type: ignore[attr-defined]
            break
        await asyncio.sleep(0.02)
    [damage] = client.fatal  # type: ignore[attr-defined]
    assert isinstance(damage, LogCorrupt)
    assert damage.path == str(segment)
    assert damage.position <= at
    assert "driftq doctor --repair" in str(damage)
    assert listener.got.empty()
    await client.broker.close()
