"""The server and its housekeeper together: a segment is sealed, folded, adopted, and the old files go."""

import asyncio
from pathlib import Path

import pytest

from driftq.core.limits import Limits
from driftq.log.disk import OsFolder
from driftq.log.manifest import read_manifest
from driftq.server.upkeep import UpkeepOptions
from tests.support.desk import Desk, Listener, start


async def rounds(desk: Desk, count: int) -> None:
    """Wait until so many rounds are over and adopted."""
    for _ in range(4_000):
        if desk.engine.counters.rounds >= count and not desk.engine.upkeep._busy:
            return
        await asyncio.sleep(0.005)
    pytest.fail(f"{desk.engine.counters.rounds} of {count} rounds")


@pytest.mark.clause("W6")
async def test_a_server_that_falls_idle_seals_what_it_has(tmp_path: Path) -> None:
    folder = OsFolder(tmp_path / "log")
    desk = start(folder, upkeep=UpkeepOptions(tick_ms=5, roll_ms=30))
    await desk.create("t")
    await desk.produce("t", "a", "b")
    await rounds(desk, 1)
    manifest = read_manifest(folder)
    assert manifest is not None
    sealed = desk.broker.log.sealed
    assert manifest.segment == sealed
    await asyncio.sleep(0.2)
    assert desk.broker.log.sealed == sealed  # Nothing was written since, so nothing more is sealed.
    await desk.broker.close()


@pytest.mark.clause("W6", "W8", "G4")
async def test_messages_are_delivered_from_adopted_files_and_after_a_restart(tmp_path: Path) -> None:
    options = {"segment_bytes": 65_536, "upkeep": UpkeepOptions(tick_ms=5)}
    desk = start(OsFolder(tmp_path / "log"), **options)
    await desk.create("t")
    for number in range(40):
        await desk.produce("t", *(f"{number * 20 + place}-{'x' * 300}" for place in range(20)))
    await rounds(desk, 2)
    index = desk.engine.state.topics["t"].partitions[0].index
    assert isinstance(index.chunks[0].offsets, memoryview)
    listener = await desk.join(Listener("t", "g", "w", prefetch=10_000))
    got = [(await listener.got.get())["value"].split("-")[0] for _ in range(800)]
    assert got == [str(number) for number in range(800)]
    await desk.ack(listener, 7)
    await desk.broker.close()
    again = start(OsFolder(tmp_path / "log"), **options)
    view = await again.view("t")
    assert (view.partitions[0].messages, view.groups[0].lag) == (800, 799)
    await again.broker.close()


@pytest.mark.clause("T7", "W6")
async def test_what_is_dropped_leaves_the_disk_and_streams_go_on(tmp_path: Path) -> None:
    limits = Limits(retention_ms=200, idempotency_ttl_ms=100)
    options = {"segment_bytes": 65_536, "limits": limits, "upkeep": UpkeepOptions(tick_ms=10, roll_ms=100)}
    desk = start(OsFolder(tmp_path / "log"), **options)
    await desk.create("t")
    listener = await desk.join(Listener("t", "g", "w", prefetch=10_000))
    for number in range(60):
        await desk.produce("t", *(f"{number}-{'x' * 400}" for _ in range(20)))
        for offset in range(number * 20, number * 20 + 20):
            assert (await listener.got.get())["offset"] == offset
            await desk.ack(listener, offset)
    messages, segments = -1, list[Path]()
    for _ in range(4_000):
        segments = list((tmp_path / "log").glob("*.log"))
        messages = (await desk.view("t")).partitions[0].messages
        if messages == 0 and len(segments) <= 2:
            break
        await asyncio.sleep(0.005)
    else:
        pytest.fail(f"{messages} messages and {segments} are left")
    assert desk.engine.counters.trimmed == 1_200
    await desk.produce("t", "after all")
    assert (await listener.got.get())["offset"] == 1_200
    await desk.broker.close()
