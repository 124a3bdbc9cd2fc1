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


def append_all(server: ServerProcess) -> None:
    """Each event until its append is confirmed: the server is killed meanwhile."""
    client = server.client()
    for number in range(1, EVENTS + 1):
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

    def wait_for(self, count: int, *, or_position: int) -> None:
        """Until it has seen so many events, or the last one of all."""
        wait_until("it has seen some", lambda: len(self.seen) >= count or or_position in self.seen)

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
    with ServerProcess(tmp_path / "data") as server:
        appending = threading.Thread(target=append_all, args=(server,))
        appending.start()
        try:
            for kill in range(KILLS):
                before = stored_position(server)
                following = Following(server)
                wanted = chance.randrange(1, EVENTS // KILLS)
                following.wait_for(wanted, or_position=EVENTS)
                if kill % 2:
                    server.restart()
                positions = following.kill()
                if positions:
                    assert positions[0] == before + 1, "it did not begin after the stored position"
                    assert positions == list(range(before + 1, before + 1 + len(positions))), "not in order"
                seen.update(positions)
                assert stored_position(server) <= max(seen, default=0), "an event is counted that nobody saw"
        finally:
            appending.join()
        following = Following(server)
        wait_until("it has seen all", lambda: bool(following.seen) and following.seen[-1] == EVENTS)
        seen.update(following.kill())
    assert seen == set(range(1, EVENTS + 1))
