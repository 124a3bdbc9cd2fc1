"""A disk that runs full: produce is refused and says why, acks go on, and room heals it without a restart."""

import asyncio
import errno

import pytest

from driftq.errors import DiskFull, NotConfirmed
from driftq.server.maintenance.stage import MaintenanceOptions
from driftq.testing.disk import SimFolder
from tests.support.direct import DirectClient, Listener, start

MAINTENANCE = MaintenanceOptions(tick_ms=5, free_bytes_min=1_000_000)


async def until(client: DirectClient, *, full: bool) -> None:
    for _ in range(2_000):
        if (client.engine.stages.maintenance.disk_full is not None) == full:
            return
        await asyncio.sleep(0.002)
    pytest.fail("the disk was not looked at")


@pytest.mark.clause("T7")
async def test_below_the_floor_produce_is_refused_and_acks_go_on(folder: SimFolder) -> None:
    client = start(folder, maintenance=MAINTENANCE)
    await client.create("t")
    await client.produce("t", "a", "b")
    listener = await client.join(Listener("t", "g", "w"))
    folder.free = 999_999
    await until(client, full=True)
    with pytest.raises(DiskFull) as refused:
        await client.produce("t", "c")
    assert (refused.value.status, refused.value.reason) == (503, "disk_full")
    assert refused.value.free_bytes == 999_999
    for offset in (0, 1):
        await listener.got.get()
        await client.ack(listener, offset)
    folder.free = 1_000_000
    await until(client, full=False)
    assert await client.produce("t", "c") == [(0, 2)]
    await client.broker.close()


@pytest.mark.clause("T7", "P1")
async def test_a_segment_that_cannot_be_reserved_shows_before_anything_is_decided(folder: SimFolder) -> None:
    client = start(folder, maintenance=MAINTENANCE)
    await client.create("t")
    files = client.broker.log.files
    for _ in range(2_000):
        if files._spare is not None:
            break
        await asyncio.sleep(0.002)
    for _ in range(50):
        folder.fail_next("allocate", error=errno.ENOSPC)
    files._spare = None  # As when a segment has just been begun with it.
    await until(client, full=True)
    with pytest.raises(DiskFull):
        await client.produce("t", "a")
    folder._faults.planned.clear()
    await until(client, full=False)
    assert await client.produce("t", "a") == [(0, 0)]
    await client.broker.close()


@pytest.mark.clause("P1", "T7")
async def test_a_write_that_finds_no_room_is_not_confirmed_and_the_next_one_is(folder: SimFolder) -> None:
    client = start(folder, maintenance=MAINTENANCE)
    await client.create("t")
    folder.fail_next("write", error=errno.ENOSPC, after_bytes=7)
    with pytest.raises(NotConfirmed):
        await client.produce("t", "lost")
    assert await client.produce("t", "kept") == [(0, 0)]
    await client.broker.close()
