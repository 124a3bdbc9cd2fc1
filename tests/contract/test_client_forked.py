"""A client that was made and used before a fork: parent and child go on, each with what is its own."""

import asyncio
import multiprocessing
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import driftq
from tests.contract.serving import Server
from tests.support.forked import run_in_child

FORK = multiprocessing.get_context("fork")


@pytest.fixture
def client(server: Server) -> Iterator[driftq.Client]:
    with driftq.Client(f"http://127.0.0.1:{server.port}", timeout_s=20) as asking:
        yield asking


@pytest.fixture
def topic(server: Server) -> str:
    return server.new_topic(1)


@pytest.mark.clause("H1")
def test_parent_and_child_produce_side_by_side(client: driftq.Client, topic: str) -> None:
    client.produce_many(topic, ["before"] * 10)
    children = [
        FORK.Process(target=client.produce_many, args=(topic, ["child"] * 50), daemon=True) for _ in range(2)
    ]
    for child in children:
        child.start()
    client.produce_many(topic, ["parent"] * 50)
    for child in children:
        child.join(timeout=60)
    assert [child.exitcode for child in children] == [0, 0], "a child hung or failed"
    values = [one.value for one in client.records(topic)]
    assert {value: values.count(value) for value in set(values)} == {"before": 10, "parent": 50, "child": 100}


@pytest.mark.clause("G3", "A7")
def test_what_the_parent_was_handed_is_not_handed_to_its_child(client: driftq.Client, topic: str) -> None:
    """Ten are here, unread; the child gets none of them, cannot settle any, and takes none away."""
    client.produce_many(topic, range(10))
    deliveries = client.consume(topic, "billing", lease_ms=60_000)
    first = next(deliveries)
    stored = client.records(topic)
    next(stored)
    calls: list[Callable[[], object]] = [
        lambda: next(deliveries),
        lambda: deliveries.take(1, within_s=10),
        first.ack,
        first.ack_later,
        first.nack,
        first.extend,
    ]

    def refused() -> None:
        for call in calls:
            with pytest.raises(driftq.UsedAfterFork, match=r"call consume\(\) in this process"):
                call()
        deliveries.close()

    run_in_child(refused)
    first.ack()
    rest = deliveries.take(9, within_s=30)
    assert [(one.json(), one.attempt) for one in rest] == [(number, 1) for number in range(1, 10)]
    for one in rest:
        one.ack()
    deliveries.close()
    assert [one.json() for one in stored] == list(range(1, 10))
    assert sum(group.lag for group in client.topic(topic).groups) == 0


def test_a_child_consumes_under_a_name_of_its_own(client: driftq.Client, topic: str) -> None:
    client.produce(topic, "v")
    with client.consume(topic, "mine") as deliveries:
        taken = deliveries.owner

    def consume() -> None:
        with client.consume(topic, "childs") as own:
            assert own.owner != taken
            next(own).ack()
        client.jobs.enqueue("forked", "task", {"n": 1})
        begun = client.idempotency.begin(
            topic=topic, group="g", idempotency_key="k", owner=own.owner, lease_ms=60_000
        )
        assert isinstance(begun, driftq.Begun)

    run_in_child(consume)
    held = client.idempotency.begin(topic=topic, group="g", idempotency_key="k", owner=taken)
    assert isinstance(held, driftq.Held)


def test_the_awaited_client_begins_anew_on_the_childs_loop(server: Server, topic: str) -> None:
    asking = driftq.AsyncClient(f"http://127.0.0.1:{server.port}", timeout_s=20)

    async def use(value: str) -> list[str]:
        await asking.produce(topic, value)
        return [one.value async for one in asking.records(topic)]

    async def in_the_parent() -> None:
        assert await use("parent") == ["parent"]
        run_in_child(lambda: asyncio.run(use("child")))
        assert await use("again") == ["parent", "child", "again"]
        await asking.close()

    asyncio.run(in_the_parent())


def test_a_client_that_was_closed_stays_closed(server: Server) -> None:
    asking = driftq.Client(f"http://127.0.0.1:{server.port}")
    asking.close()

    def use() -> None:
        with pytest.raises(driftq.ClientClosed):
            asking.topics()
        asking.close()

    run_in_child(use)


def test_a_worker_that_runs_stays_with_the_parent_and_begins_anew_in_a_child(
    client: driftq.Client, topic: str
) -> None:
    """As a server does that loads an application once and forks."""
    readable, writable = os.pipe()
    worker = driftq.Worker(client, group="preloaded", lease_ms=60_000)

    @worker.on(topic, effect=driftq.Effect.IDEMPOTENT, concurrency=1, prefetch=1)
    def note(message: driftq.Message, context: driftq.Context) -> None:
        os.write(writable, f"{message.value} {os.getpid()}\n".encode())

    def work() -> None:
        worker.stop()  # It has not begun here: nobody is waited for, and nothing is stopped.
        worker.start()
        client.produce_many(topic, ["shared"] * 20)
        told = b""
        while told.count(b"\n") < 20:
            told += os.read(readable, 1000)
        worker.stop()
        assert told.count(b"shared") == 20
        assert str(os.getpid()).encode() in told, "the child had none of it"

    worker.start()
    run_in_child(work)
    client.produce(topic, "for the parent")
    with os.fdopen(readable) as told:
        assert told.readline() == f"for the parent {os.getpid()}\n"
    worker.stop()
    assert sum(group.lag for group in client.topic(topic).groups) == 0


PRELOADED = """
import os, sys
import driftq

client = driftq.Client(sys.argv[1], timeout_s=20)
client.topics()
deliveries = client.consume(sys.argv[2], "exiting")
child = os.fork()
if not child:
    client.produce(sys.argv[2], "child")
    sys.exit(7)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
client.produce(sys.argv[2], "parent")
"""


def test_a_child_that_ends_as_a_program_does_takes_nothing_along(server: Server, topic: str) -> None:
    """Finalizers and exit handlers run: nothing hangs, is logged, or is closed under the parent."""
    command = [sys.executable, "-c", PRELOADED, f"http://127.0.0.1:{server.port}", topic]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "", "")


EMBEDDED = """
import os, signal, sys
import driftq

broker = driftq.open(sys.argv[1])
broker.create_topic("orders")
broker.produce("orders", "parent")
readable, writable = os.pipe()
if not os.fork():
    try:
        broker.produce("orders", "child")
    except driftq.UsedAfterFork as refused:
        print(refused, flush=True)
    broker.close()
    os.read(readable, 1)  # Outlives its parent.
    sys.exit()
broker.produce("orders", "parent")
sys.stdin.readline()
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.clause("W6")
def test_a_broker_in_the_parent_is_refused_to_its_child_at_once(tmp_path: Path) -> None:
    """Nor does the child hold the folder: when the parent is killed another process can have it."""
    running = subprocess.Popen(
        [sys.executable, "-c", EMBEDDED, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert running.stdin is not None
    assert running.stdout is not None
    try:
        assert "belongs to the process that this one was forked from" in running.stdout.readline()
        running.stdin.write("\n")
        running.stdin.flush()
        assert running.wait(60) == -9
        with driftq.open(tmp_path) as broker:
            assert [one.value for one in broker.records("orders")] == ["parent", "parent"]
    finally:
        running.stdin.close()
        running.stdout.close()
        os.killpg(running.pid, 9)
