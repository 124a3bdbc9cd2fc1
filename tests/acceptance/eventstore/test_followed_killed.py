"""Followers and their server, killed at random: every event is seen, in order, from the position on."""

import random
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.eventstore import follower
from tests.harness import Broken, ServerProcess
from tests.support.waiting import wait_until

EVENTS = 600
KILLS = 8
GROUP = "mail"


def fact(number: int) -> dict[str, Any]:
    return {
        "event_id": f"e{number}",
        "aggregate_type": "order",
        "aggregate_id": f"o-{number % 5}",
        "event_type": "changed",
        "kind": "fact",
        "operation": "append",
        "payload": number,
    }


def append_all(server: ServerProcess, numbers: range) -> None:
    """Each event until its append is confirmed: the server is killed meanwhile."""
    client = server.client()
    for number in numbers:
        while True:
            try:
                if client.post("/v1/events", fact(number)).status in (200, 201):
                    break
            except Broken:
                client = server.client()


def stored_position(server: ServerProcess) -> int:
    groups = server.client().get("/v1/events/groups").body["groups"]
    return int(groups[0]["position"]) if groups else 0


class Following:
    """One follower process, and the positions that it has printed."""

    def __init__(self, server: ServerProcess) -> None:
        url = f"http://127.0.0.1:{server.port}"
        command = [sys.executable, follower.__file__, url, GROUP]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        self.seen: list[int] = []
        self._thread = threading.Thread(target=self._read)
        self._thread.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if line.endswith("\n"):
                self.seen.append(int(line))

    def wait_for(self, count: int) -> None:
        wait_until(f"it has seen {count}", lambda: len(self.seen) >= count)

    def kill(self) -> list[int]:
        self.process.kill()
        self.process.wait()
        self._thread.join()
        assert self.process.stdout is not None
        self.process.stdout.close()
        return self.seen


@pytest.mark.timeout(300)
@pytest.mark.clause("S11")
def test_followers_and_the_server_are_killed_and_no_event_is_missed(tmp_path: Path) -> None:
    chance = random.Random(11)
    seen: set[int] = set()
    part = EVENTS // KILLS
    with ServerProcess(tmp_path / "data") as server:
        for kill in range(KILLS):
            numbers = range(kill * part + 1, (kill + 1) * part + 1)
            appending = threading.Thread(target=append_all, args=(server, numbers))
            before = stored_position(server)
            following = Following(server)
            appending.start()
            try:
                following.wait_for(chance.randrange(1, part))
                if kill % 2:
                    server.restart()
            finally:
                positions = following.kill()
                appending.join()
            assert positions == list(range(before + 1, before + 1 + len(positions))), "a gap, or out of order"
            seen.update(positions)
            assert stored_position(server) <= max(seen), "an event counts as handled that nobody saw"
        following = Following(server)
        following.wait_for(EVENTS - stored_position(server))
        seen.update(following.kill())
    assert seen == set(range(1, EVENTS + 1))
