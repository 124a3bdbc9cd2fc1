"""`driftq publish`: each event once on its topic and in order, however the publisher ends."""

import random
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.harness import ServerProcess
from tests.spark.publishing import (
    append_events,
    arrived,
    assert_once_and_in_order,
    newest_checkpoint,
)
from tests.support.waiting import wait_until

KILLS = 6
EVENTS = 1200
ENDS_WITHIN_S = 60


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ServerProcess]:
    with ServerProcess(tmp_path / "data") as started:
        yield started


@contextmanager
def publishing(server: ServerProcess, *options: str) -> "Iterator[subprocess.Popen[str]]":
    """A publisher; one that still runs at the end is killed."""
    command = [sys.executable, "-m", "driftq", "publish", *options]
    where = ["--url", f"http://127.0.0.1:{server.port}", "--data", str(server.data)]
    publisher = subprocess.Popen([*command, *where], stderr=subprocess.PIPE, text=True)
    try:
        yield publisher
    finally:
        publisher.kill()
        publisher.communicate()


def publish_once(server: ServerProcess) -> str:
    """What it logs."""
    with publishing(server, "--once") as publisher:
        _, said = publisher.communicate(timeout=ENDS_WITHIN_S)
        assert publisher.returncode == 0, said
    return said


@pytest.mark.clause("U8")
def test_it_needs_no_spark() -> None:
    code = "import sys, driftq.publishing.plain, driftq.cli.publish; print('pyspark' in sys.modules)"
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert said.stdout == "False\n"


@pytest.mark.clause("U1", "U2", "U4", "U5", "U8")
def test_once_publishes_what_is_there_and_exits(server: ServerProcess) -> None:
    append_events(server, 150)
    publish_once(server)
    assert_once_and_in_order(arrived(server), 150)
    append_events(server, 60, first=151)
    assert "60 events published" in publish_once(server)
    assert_once_and_in_order(arrived(server), 210)
    saved = newest_checkpoint(server)
    assert (saved.position, saved.epoch) == (210, 2)
    server.client()._call("DELETE", "/v1/topics/events.order", None)
    publish_once(server)
    assert_once_and_in_order(arrived(server), 210)


@pytest.mark.clause("U8")
def test_it_waits_for_events_and_ends_when_it_is_asked_to(server: ServerProcess) -> None:
    with publishing(server) as publisher:
        for number in range(1, 4):
            append_events(server, 1, first=number)
            wait_until("the event is on its topic", lambda count=number: len(arrived(server)) == count)  # type: ignore[misc]
        publisher.terminate()
        _, said = publisher.communicate(timeout=ENDS_WITHIN_S)
        assert publisher.returncode == 0, said
    assert newest_checkpoint(server).position == 3


@pytest.mark.clause("U8")
def test_the_newer_publisher_goes_on_and_the_older_one_ends(server: ServerProcess) -> None:
    append_events(server, 20)
    with publishing(server) as older:
        wait_until("the older one works", lambda: len(arrived(server)) == 20)
        with publishing(server) as newer:
            wait_until("the newer one has taken over", lambda: newest_checkpoint(server).epoch == 2)
            append_events(server, 20, first=21)  # The older one reads them too, and is refused.
            _, said = older.communicate(timeout=ENDS_WITHIN_S)
            assert older.returncode == 1
            assert "another publisher has taken over" in said
            wait_until("all are there", lambda: len(arrived(server)) == 40)
            assert newer.poll() is None
    assert_once_and_in_order(arrived(server), 40)


@pytest.mark.timeout(300)
@pytest.mark.clause("U1", "U2", "U8", "X1")
def test_killed_at_random_it_loses_and_doubles_nothing(server: ServerProcess) -> None:
    """The publisher is killed while it works, and the server now and then."""
    chance = random.Random(8)
    part = EVENTS // KILLS
    for kill in range(KILLS):
        append_events(server, part, first=kill * part + 1)
        before = len(arrived(server))
        with publishing(server):
            wanted = before + chance.randrange(1, part)
            wait_until("some are published", lambda count=wanted: len(arrived(server)) >= count)  # type: ignore[misc]
            if kill % 3 == 2:
                server.restart()
    publish_once(server)
    assert_once_and_in_order(arrived(server), EVENTS)
