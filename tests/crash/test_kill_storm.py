"""Servers killed at random moments under load: what clients saw before and after must fit together."""

import os
import random
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.crash.checks import check_finished, check_group, check_messages, check_order, stored
from tests.crash.history import History
from tests.crash.workload import TOPIC, Producer, Worker
from tests.harness import Broken, ServerProcess
from tests.support.thorough import rounds

PARTITIONS = 3
GROUPS = ("billing", "mail")
PRODUCERS = 8
WORKERS_PER_GROUP = 4
DRAIN_S = 150.0
KILLS = {"always": rounds(6, thorough=14), "interval": rounds(3, thorough=8)}
"""By the level of fsync."""


@pytest.fixture
def seed() -> str:
    """Printed with a failure; DRIFTQ_TEST_SEED=… repeats the same choices."""
    chosen = os.environ.get("DRIFTQ_TEST_SEED") or str(random.SystemRandom().randrange(10**9))
    print(f"DRIFTQ_TEST_SEED={chosen}")
    return chosen


@pytest.fixture
def storm(tmp_path: Path, seed: str, request: pytest.FixtureRequest) -> Iterator["Storm"]:
    with ServerProcess(tmp_path / "data", "--fsync", request.param) as server:
        storm = Storm(server, seed)
        yield storm
        storm.stop()


class Storm:
    """Eight producers and eight workers at a server that keeps dying."""

    def __init__(self, server: ServerProcess, seed: str) -> None:
        self.server = server
        self.history = History()
        self.chance = random.Random(seed)
        answer = server.client().post("/v1/topics", {"name": TOPIC, "partitions": PARTITIONS})
        assert answer.status == 201
        self.producers = [
            Producer(f"producer-{number}", server, self.history, seed) for number in range(PRODUCERS)
        ]
        self.workers = [
            Worker(f"{group}-{number}", server, self.history, seed, group=group)
            for group in GROUPS
            for number in range(WORKERS_PER_GROUP)
        ]
        for actor in (*self.producers, *self.workers):
            actor.start()

    def round(self) -> None:
        """Let it run for a random while, kill it, start it again; sometimes kill it while it starts."""
        time.sleep(self.chance.uniform(0.05, 0.7))
        self.server.kill()
        if self.chance.random() < 0.25:
            self.server.spawn()
            time.sleep(self.chance.uniform(0.0, 0.5))
            self.server.kill()
        self.server.start()

    def drain(self) -> None:
        """No more messages, no more mischief: wait until the groups have settled everything."""
        for producer in self.producers:
            producer.stop()
            producer.join()
        for worker in self.workers:
            worker.calm.set()
        wait_until(lambda: self.lag() == 0, within_s=DRAIN_S)

    def lag(self) -> int:
        view = self.server.client().get(f"/v1/topics/{TOPIC}").body
        assert {row["group"] for row in view["groups"]} == set(GROUPS)
        return sum(row["lag"] for row in view["groups"])

    def stop(self) -> None:
        for actor in (*self.producers, *self.workers):
            actor.stop()
        for actor in (*self.producers, *self.workers):
            actor.join(10)


def wait_until(reached: Callable[[], bool], *, within_s: float) -> None:
    end = time.monotonic() + within_s
    while time.monotonic() < end:
        try:
            if reached():
                return
        except Broken:
            pass
        time.sleep(0.05)
    raise AssertionError(f"not reached within {within_s} s")


@pytest.mark.clause("P1", "W1", "W2", "W3", "A3", "A6", "G4", "G5", "D1", "T4", "T5", "I3")
@pytest.mark.parametrize("storm", ["always", "interval"], indirect=True)
def test_nothing_is_lost_doubled_or_forgotten_however_often_the_server_is_killed(
    storm: Storm, request: pytest.FixtureRequest
) -> None:
    kills = KILLS[request.node.callspec.params["storm"]]
    for _ in range(kills):
        storm.round()
    storm.drain()
    storm.stop()
    storm.server.restart()
    assert storm.lag() == 0
    history = storm.history
    assert not history.surprises
    messages = stored(storm.server.client(), PARTITIONS)
    assert len(history.confirmed) > 10 * kills, "hardly anything happened"
    check_messages(history, messages)
    for name in GROUPS:
        group = history.groups[name]
        check_group(group, messages)
        check_order(group)
        check_finished(group, messages)
    seen = {name: sum(len(lines) for lines in history.groups[name].deliveries.values()) for name in GROUPS}
    outlived = sum(history.groups[name].outlived for name in GROUPS)
    print(f"{kills} rounds, {len(messages)} messages, deliveries {seen}, acked after a restart: {outlived}")
