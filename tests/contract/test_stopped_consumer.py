"""A consumer process under SIGSTOP: its connection stays open, and the kernel takes what it is sent."""

import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest

from tests.contract.serving import PATIENCE_S, ROOT, Server

LEASE_MS = 500
POLICY = {"max_attempts": 3, "backoff_ms": 0}


@pytest.fixture
def topic(server: Server) -> str:
    topic = server.new_topic()
    for number in range(50):
        server.produce(topic, str(number), retry_policy=POLICY)
    return topic


@pytest.fixture
def consumer(server: Server, topic: str) -> Iterator[subprocess.Popen[str]]:
    """A consumer that holds all fifty and is stopped."""
    command = [sys.executable, "-m", "tests.contract.silent_consumer", str(server.port), topic, str(LEASE_MS)]
    with subprocess.Popen(
        command, cwd=ROOT, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "0 1\n"
        process.send_signal(signal.SIGSTOP)
        yield process
        process.kill()


def wait_until_stalled(server: Server, topic: str) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        (shown,) = server.get(f"/v1/topics/{topic}").json["streams"]
        if shown["stalled"]:
            return
        time.sleep(0.02)
    pytest.fail("the stream is not shown as stalled")


def dead(server: Server, topic: str) -> int:
    answer = server.get(f"/v1/dlq/{topic}")
    return 0 if answer.status == 404 else len(answer.json["messages"])


@pytest.mark.clause("G1", "D3")
def test_a_stopped_consumer_burns_three_messages_at_most(
    server: Server, topic: str, consumer: subprocess.Popen[str]
) -> None:
    wait_until_stalled(server, topic)
    time.sleep(4)  # The story: it is stopped for four seconds, and the server has time to do harm.
    assert dead(server, topic) <= 3
    counted = re.search(r"^driftq_stalls_total (\S+)$", server.get("/v1/metrics").content.decode(), re.M)
    assert counted is not None
    assert float(counted[1]) >= 1


@pytest.mark.clause("G1")
def test_it_goes_on_as_before_when_it_is_continued(
    server: Server, topic: str, consumer: subprocess.Popen[str]
) -> None:
    wait_until_stalled(server, topic)
    assert consumer.stdin is not None
    assert consumer.stdout is not None
    consumer.stdin.write("ack\n")
    consumer.stdin.flush()
    consumer.send_signal(signal.SIGCONT)
    ends: set[int] = set()
    while len(ends) + dead(server, topic) < 50 or server.get(f"/v1/topics/{topic}").json["groups"][0]["lag"]:
        offset, _ = map(int, consumer.stdout.readline().split())
        ends.add(offset)
    assert dead(server, topic) <= 3
    (shown,) = server.get(f"/v1/topics/{topic}").json["streams"]
    assert (shown["owner"], shown["stalled"]) == ("silent", False)
