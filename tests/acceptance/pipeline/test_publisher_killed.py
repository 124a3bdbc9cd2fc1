"""A publisher's driver, killed with its process group in a batch: each event is on its topic once."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.harness import ServerProcess
from tests.spark.publisher_driver import KillPoint, kill_at, run_to_the_end
from tests.spark.publishing import (
    append_events,
    arrived,
    assert_once_and_in_order,
    options_for,
)


@pytest.fixture
def own_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """A server with an event log that no other test writes to."""
    with ServerProcess(tmp_path_factory.mktemp("publisher") / "data") as started:
        yield started


@pytest.mark.timeout(900)
@pytest.mark.clause("U1", "U2", "X1", "Z6")
def test_a_publisher_that_is_killed_in_a_batch_and_started_again_loses_and_doubles_nothing(
    own_server: ServerProcess,
) -> None:
    """The other points are in the matrix."""
    options = options_for(own_server, batch_events=10, flush_events=10)
    append_events(own_server, 300)
    kill_at(options, KillPoint.MID_BATCH)
    assert 0 < len(arrived(own_server)) < 300
    append_events(own_server, 20, first=301)
    run_to_the_end(options)
    assert_once_and_in_order(arrived(own_server), 320)
