"""The server and its housekeeper together: a segment is sealed, folded, adopted, and the old files go."""

import asyncio
from pathlib import Path

import pytest

from driftq.errors import NotConfirmed, ShuttingDown
from driftq.housekeeping.in_memory import HousekeeperThread
from driftq.log.disk import OsFolder
from driftq.log.manifest import read_manifest
from driftq.log.memory import MemoryFolder
from driftq.model.options.limits import Limits
from driftq.server.maintenance.stage import MaintenanceOptions
from driftq.server.requests import SealRequest
from tests.support.direct import DirectClient, Listener, start


async def rounds(client: DirectClient, count: int) -> None:
    """Wait until so many rounds are over and adopted."""
    for _ in range(4_000):
        if client.engine.counters.rounds >= count and not client.engine.stages.maintenance._busy:
            return
        await asyncio.sleep(0.005)
    pytest.fail(f"{client.engine.counters.rounds} of {count} rounds")


@pytest.mark.clause("W6")
async def test_a_server_that_falls_idle_seals_what_it_has(tmp_path: Path) -> None:
    folder = OsFolder(tmp_path / "log")
    client = start(folder, maintenance=MaintenanceOptions(tick_ms=5, roll_ms=30))
    await client.create("t")
    await client.produce("t", "a", "b")
    log = client.broker.log
    manifest = None
    for count in range(1, 10):  # A slow machine seals the topic and the messages one after the other.
        await rounds(client, count)
        manifest = read_manifest(folder)
        if manifest is not None and manifest.lsn == log.last_lsn - 1:
            break  # Nothing but the record that began the new segment is behind it.
    assert manifest is not None
    sealed = log.sealed
    assert manifest.segment == sealed
    await asyncio.sleep(0.2)
    assert client.broker.log.sealed == sealed  # Nothing was written since, so nothing more is sealed.
    await client.broker.close()


@pytest.mark.clause("W6", "W8", "G4")
async def test_messages_are_delivered_from_adopted_files_and_after_a_restart(tmp_path: Path) -> None:
    options = {"segment_bytes": 65_536, "maintenance": MaintenanceOptions(tick_ms=5)}
    client = start(OsFolder(tmp_path / "log"), **options)
    await client.create("t")
    for number in range(40):
        await client.produce("t", *(f"{number * 20 + place}-{'x' * 300}" for place in range(20)))
    await rounds(client, 2)
    index = client.engine.state.topics["t"].partitions[0].index
    assert isinstance(index.chunks[0].offsets, memoryview)
    listener = await client.join(Listener("t", "g", "w", prefetch=10_000))
    got = [(await listener.got.get())["value"].split("-")[0] for _ in range(800)]
    assert got == [str(number) for number in range(800)]
    await client.ack(listener, 7)
    await client.broker.close()
    again = start(OsFolder(tmp_path / "log"), **options)
    view = await again.view("t")
    assert (view.partitions[0].messages, view.groups[0].lag) == (800, 799)
    await again.broker.close()


@pytest.mark.clause("T7", "W6")
async def test_what_is_dropped_leaves_the_disk_and_streams_go_on(tmp_path: Path) -> None:
    limits = Limits(retention_ms=200, idempotency_ttl_ms=100)
    options = {
        "segment_bytes": 65_536,
        "limits": limits,
        "maintenance": MaintenanceOptions(tick_ms=10, roll_ms=100),
    }
    client = start(OsFolder(tmp_path / "log"), **options)
    await client.create("t")
    listener = await client.join(Listener("t", "g", "w", prefetch=10_000))
    for number in range(60):
        await client.produce("t", *(f"{number}-{'x' * 400}" for _ in range(20)))
        for offset in range(number * 20, number * 20 + 20):
            assert (await listener.got.get())["offset"] == offset
            await client.ack(listener, offset)
    messages, segments = -1, list[Path]()
    for _ in range(4_000):
        segments = list((tmp_path / "log").glob("*.log"))
        messages = (await client.view("t")).partitions[0].messages
        if messages == 0 and len(segments) <= 2:
            break
        await asyncio.sleep(0.005)
    else:
        pytest.fail(f"{messages} messages and {segments} are left")
    assert client.engine.counters.trimmed == 1_200
    await client.produce("t", "after all")
    assert (await listener.got.get())["offset"] == 1_200
    await client.broker.close()


async def sealed(client: DirectClient) -> None:
    told: asyncio.Future[object] = asyncio.get_running_loop().create_future()
    client.engine.submit(SealRequest(told.set_result))
    answer = await asyncio.wait_for(told, 60)
    if isinstance(answer, Exception):
        raise answer


@pytest.mark.clause("Z3")
async def test_who_asks_for_sealing_waits_until_all_that_was_durable_is_adopted(tmp_path: Path) -> None:
    folder = OsFolder(tmp_path / "log")
    client = start(folder)
    await client.create("t")
    for number in range(3):
        await client.produce("t", f"v{number}")
        before = client.broker.log.confirmed.segment
        await asyncio.gather(sealed(client), sealed(client))
        manifest = read_manifest(folder)
        assert manifest is not None
        assert manifest.segment >= before
    segment = client.broker.log.confirmed.segment
    await sealed(client)
    assert client.broker.log.confirmed.segment == segment, "nothing was new, so nothing was sealed"
    await client.broker.close()


async def test_who_waits_for_sealing_is_told_when_it_does_not_come(tmp_path: Path) -> None:
    client = start(OsFolder(tmp_path / "log"))
    await client.create("t")
    waiting = asyncio.create_task(sealed(client))
    await asyncio.sleep(0)
    await client.broker.close()
    with pytest.raises(ShuttingDown):
        await waiting
    without = start(OsFolder(tmp_path / "other"), housekeeping=False)
    with pytest.raises(NotConfirmed, match="without housekeeping"):
        await sealed(without)
    await without.broker.close()


@pytest.mark.clause("W7", "T7", "W6")
async def test_without_a_wal_memory_follows_what_is_kept() -> None:
    """A hundred times the bytes of what is kept pass through a log in memory."""
    folder = MemoryFolder()
    limits = Limits(retention_ms=1, idempotency_ttl_ms=1)
    client = start(
        folder,
        durable=False,
        limits=limits,
        new_housekeeper=HousekeeperThread,
        segment_bytes=65_536,
        maintenance=MaintenanceOptions(tick_ms=5),
    )
    await client.create("t")
    for _ in range(100):
        await client.produce("t", *("x" * 1_000 for _ in range(30)))

    def held_bytes() -> int:
        return sum(folder.open(name).size() for name in folder.names())

    await sealed(client)
    for _ in range(4_000):
        if held_bytes() < 300_000:
            break
        await asyncio.sleep(0.005)
        await client.produce("t", "one more")
    assert held_bytes() < 300_000
    await client.broker.close()
