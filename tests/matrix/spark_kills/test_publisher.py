"""A publisher's driver, killed with its process group at every point: each event is on its topic once."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from driftq.pipeline.publisher.run import FEW_EVENTS
from tests.harness import ServerProcess
from tests.spark.publisher_driver import KillPoint, kill_at, run_to_the_end
from tests.spark.publishing import (
    append_events,
    arrived,
    assert_once_and_in_order,
    newest_checkpoint,
    options_for,
)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ServerProcess]:
    """A server with an event log of its own."""
    with ServerProcess(tmp_path / "data") as started:
        yield started


@pytest.mark.timeout(900)
@pytest.mark.clause("U1", "U2", "X1", "Z6")
@pytest.mark.parametrize("count", [FEW_EVENTS // 2, 300], ids=["by the driver", "by tasks"])
def test_a_publisher_that_is_killed_and_started_again_loses_and_doubles_nothing(
    server: ServerProcess, count: int
) -> None:
    """Killed before it sends, in the middle of a batch, and between the last append and the checkpoint."""
    options = options_for(server, batch_events=10, flush_events=10)
    append_events(server, count)
    kill_at(options, KillPoint.BEFORE_APPEND)
    assert arrived(server) == []
    kill_at(options, KillPoint.MID_BATCH)
    assert 0 < len(arrived(server)) < count
    kill_at(options, KillPoint.BEFORE_CHECKPOINT)
    assert_once_and_in_order(arrived(server), count)
    assert newest_checkpoint(server).position == 0
    append_events(server, 20, first=count + 1)
    run_to_the_end(options)
    assert_once_and_in_order(arrived(server), count + 20)
