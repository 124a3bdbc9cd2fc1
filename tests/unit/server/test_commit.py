"""What is answered is durable, and what could not be made durable never happened."""

import asyncio
import errno

import pytest

from driftq.errors import NotConfirmed, WritingStopped
from driftq.log import Frame
from driftq.log.files import Folder
from driftq.testing.disk import SimFolder
from tests.support.direct import Listener, start


@pytest.mark.clause("W5")
async def test_concurrent_produces_share_one_sync(folder: SimFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    client = start(folder)
    await client.create("t")
    syncs = 0
    write_durably = client.broker.log.write_durably

    def count(frame: Frame) -> None:
        nonlocal syncs
        syncs += 1
        write_durably(frame)

    monkeypatch.setattr(client.broker.log, "write_durably", count)
    outcomes = await asyncio.gather(*[client.produce("t", f"v{number}") for number in range(100)])
    assert sorted(offset for [(_, offset)] in outcomes) == list(range(100))
    assert 1 <= syncs <= 3
    await client.broker.close()


@pytest.mark.clause("P1", "W1", "A4")
@pytest.mark.parametrize("operation", ["write", "sync"])
async def test_a_failed_write_or_sync_fails_the_produce_and_leaves_nothing(
    folder: SimFolder, operation: str
) -> None:
    client = start(folder)
    await client.create("t")
    await client.produce("t", "kept")
    listener = await client.join(Listener("t", "g", "w"))
    assert (await listener.got.get())["value"] == "kept"
    folder.fail_next(operation)  # type: ignore[arg-type]
    with pytest.raises(NotConfirmed):
        await client.produce("t", "lost")
    view = await client.view("t")
    assert view.partitions[0].messages == 1
    folder.fail_next(operation)  # type: ignore[arg-type]
    with pytest.raises(NotConfirmed):
        await client.ack(listener, 0)
    assert (await client.view("t")).groups[0].lag == 1
    await client.ack(listener, 0)  # The lease survived both failures.
    assert await client.produce("t", "next") == [(0, 1)]
    assert (await listener.got.get())["value"] == "next"
    await client.broker.close()


@pytest.mark.clause("P1")
async def test_when_the_log_cannot_be_cut_back_the_server_stops_writing_and_says_why(
    folder: SimFolder,
) -> None:
    client = start(folder)
    await client.create("t")
    folder.fail_next("sync")
    folder.fail_next("truncate", error=errno.EROFS)
    with pytest.raises(NotConfirmed):
        await client.produce("t", "lost")
    with pytest.raises(WritingStopped):
        await client.produce("t", "refused")
    assert client.engine.refusal is not None
    assert client.engine.refusal.reason == "writing_stopped"
    await client.broker.close()


@pytest.mark.clause("P1", "W2", "A3")
async def test_after_a_kill_everything_answered_is_there(folder: SimFolder) -> None:
    client = start(folder)
    await client.create("t", partitions=3)
    await client.produce("t", "a", "b", "c", key="user:1")
    listener = await client.join(Listener("t", "g", "w"))
    for _ in range(3):
        await listener.got.get()
    await client.ack(listener, 2, partition=1)
    survivor: Folder = folder.crash()
    again = start(survivor)
    view = await again.view("t")
    assert [part.messages for part in view.partitions] == [0, 3, 0]
    group = view.groups[1]
    assert (group.acked, group.floor, group.lag) == (2, 0, 2)
    await again.ack(listener, 0, partition=1)
    await again.ack(listener, 1, partition=1)
    assert (await again.view("t")).groups[1].floor == 3
    await client.broker.close()
    await again.broker.close()


@pytest.mark.clause("P1")
async def test_a_read_waits_for_the_commit_it_would_otherwise_run_ahead_of(folder: SimFolder) -> None:
    client = start(folder)
    await client.create("t")
    folder.fail_next("sync")
    produce = asyncio.create_task(client.produce("t", "never"))
    await asyncio.sleep(0)
    seen = await client.view("t")
    with pytest.raises(NotConfirmed):
        await produce
    assert seen.partitions[0].messages == 0
    await client.broker.close()
