"""The server is killed and started again under clients whose code knows nothing of it."""

import asyncio
import random
import threading
import time

import pytest

import driftq
from tests.harness import ServerProcess
from tests.support.thorough import rounds

ROUNDS = rounds(5, thorough=10)
LEASE_MS = 4_000
"""What a kill leaves on its way comes again after it."""


@pytest.fixture
def chance() -> random.Random:
    return random.Random(20)


@pytest.mark.clause("P7", "G4", "G5", "A3", "I3")
def test_a_plain_loop_neither_loses_nor_doubles_whatever_happens_to_the_server(
    server: ServerProcess, chance: random.Random
) -> None:
    stop = threading.Event()
    produced: list[int] = []
    seen: set[int] = set()
    url = f"http://127.0.0.1:{server.port}"
    reader = driftq.Client(url)
    deliveries = reader.consume("orders", "billing", lease_ms=LEASE_MS)

    def produce() -> None:
        with driftq.Client(url) as client:
            while not stop.is_set():
                client.produce("orders", len(produced))
                produced.append(len(produced))

    def consume() -> None:
        for delivery in deliveries:
            seen.add(delivery.json())
            delivery.ack()

    threads = [threading.Thread(target=work) for work in (produce, consume)]
    for thread in threads:
        thread.start()
    for _ in range(ROUNDS):
        time.sleep(chance.uniform(0.1, 0.5))
        server.restart()
    stop.set()
    threads[0].join(30)
    with driftq.Client(url) as client:
        end = time.monotonic() + 60
        while sum(group.lag for group in client.topic("orders").groups) and time.monotonic() < end:
            time.sleep(0.05)  # What was lost on its way comes again when its lease ends.
        assert sum(group.lag for group in client.topic("orders").groups) == 0
        deliveries.close()
        threads[1].join(10)
        stored = [one.json() for one in client.records("orders")]
    reader.close()
    assert not any(thread.is_alive() for thread in threads)
    assert len(produced) > ROUNDS, "hardly anything happened"
    assert stored == produced, "lost, doubled or out of order"
    assert seen == set(produced), "settled without having been seen"


@pytest.mark.clause("P7", "P6", "A9")
async def test_batches_under_way_survive_too(server: ServerProcess, chance: random.Random) -> None:
    url = f"http://127.0.0.1:{server.port}"
    done = asyncio.Event()
    confirmed: set[tuple[int, int]] = set()

    async def produce(client: driftq.AsyncClient, who: int) -> None:
        turn = 0
        while not done.is_set():
            await client.produce("orders", [who, turn])
            confirmed.add((who, turn))
            turn += 1

    async def consume(client: driftq.AsyncClient, seen: set[tuple[int, int]]) -> None:
        async for delivery in client.consume("orders", "billing", lease_ms=LEASE_MS):
            who, turn = delivery.decode(list[int])
            seen.add((who, turn))
            await delivery.ack_later()

    seen: set[tuple[int, int]] = set()
    async with driftq.AsyncClient(url) as client:
        reading = asyncio.create_task(consume(client, seen))
        writing = [asyncio.create_task(produce(client, who)) for who in range(50)]
        for _ in range(ROUNDS):
            await asyncio.sleep(chance.uniform(0.1, 0.4))
            await asyncio.to_thread(server.restart)
        done.set()
        await asyncio.gather(*writing)
        async with asyncio.timeout(60):
            while seen != confirmed or any(group.lag for group in (await client.topic("orders")).groups):  # noqa: ASYNC110
                await asyncio.sleep(0.05)
        reading.cancel()
        stored = [tuple(one.json()) async for one in client.records("orders")]
    assert len(confirmed) > 50 * ROUNDS, "hardly anything happened"
    assert len(stored) == len(set(stored)), "stored twice"
    assert set(stored) == confirmed, "lost"
    for who in range(50):
        turns = [turn for one, turn in stored if one == who]
        assert turns == sorted(turns)
