"""The publisher on Spark: every event once on its topic, whatever becomes of publisher and checkpoint."""

from __future__ import annotations

import logging
import shutil
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pyspark.errors import StreamingQueryException

import driftq
from driftq.pipeline.publisher.job import Publisher
from driftq.pipeline.publisher.run import FEW_EVENTS
from tests.harness import ServerProcess
from tests.spark.publishing import (
    append_events,
    arrived,
    assert_once_and_in_order,
    checkpoints_folder,
    effects_of,
    newest_checkpoint,
    options_for,
    publish,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@pytest.fixture
def own_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """A server with an event log that no other test writes to."""
    with ServerProcess(tmp_path_factory.mktemp("publisher") / "data") as started:
        yield started


@pytest.mark.clause("U1", "U2", "U4", "U5", "Z1")
def test_events_are_published_once_over_several_starts_and_a_deleted_topic_is_filled_again(
    spark: SparkSession, own_server: ServerProcess, caplog: pytest.LogCaptureFixture
) -> None:
    options = options_for(own_server, batch_events=20, flush_events=20)
    caplog.set_level(logging.INFO, logger="driftq.publisher")
    assert FEW_EVENTS < 350
    append_events(own_server, 350)  # Sent by tasks.
    publish(spark, options)
    assert_once_and_in_order(arrived(own_server), 350)
    append_events(own_server, 60, first=351)  # Sent by the driver.
    publish(spark, options)
    assert_once_and_in_order(arrived(own_server), 410)
    saved = newest_checkpoint(own_server)
    assert saved.position == 410
    assert saved.epoch >= 2
    assert [event_id for _, event_id in saved.recent][-1] == "e410"
    assert "60 events published" in caplog.text

    with driftq.Client(options.url) as client:
        client.call("DELETE", "/v1/topics/events.order")
    publish(spark, options)
    assert_once_and_in_order(arrived(own_server), 410)


@pytest.mark.clause("U2", "U3", "U6", "X1")
def test_a_rolled_back_checkpoint_adds_nothing_and_a_lost_one_only_duplicates(
    spark: SparkSession, own_server: ServerProcess, tmp_path: Path
) -> None:
    """What the topic knows of the publisher makes up for an old checkpoint. Without any, the publisher is a
    new one and every event is there twice; a consumer that asks the registry still acts once on each."""
    options = options_for(own_server, batch_events=50)
    folder = checkpoints_folder(own_server)
    append_events(own_server, 40)
    publish(spark, options)
    shutil.copytree(folder, tmp_path / "old")
    append_events(own_server, 30, first=41)
    publish(spark, options)

    shutil.rmtree(folder)
    shutil.copytree(tmp_path / "old", folder)
    publish(spark, options)
    assert_once_and_in_order(arrived(own_server), 70)
    assert newest_checkpoint(own_server).position == 70
    assert newest_checkpoint(own_server).epoch > 2, "the topics knew a later run"

    shutil.rmtree(folder)
    publish(spark, options)
    events = arrived(own_server)
    assert set(Counter(event.event_id for event in events).values()) == {2}
    assert effects_of(events, tmp_path) == {f"e{number}": 1 for number in range(1, 71)}


@pytest.mark.clause("U2", "Z6")
def test_of_two_publishers_the_newer_goes_on_and_the_older_is_told(
    spark: SparkSession, own_server: ServerProcess
) -> None:
    options = options_for(own_server)
    append_events(own_server, 30)
    publish(spark, options)
    append_events(own_server, 30, first=31)

    class Older(Publisher):
        """Another publisher takes over between its start and its first batch."""

        def events(self, spark: SparkSession, *, after: int) -> DataFrame:
            Publisher(options).begin()
            return super().events(spark, after=after)

    query = Older(options).start(spark, once=True)
    with pytest.raises(StreamingQueryException, match="another publisher has taken over"):
        query.awaitTermination(240)
    assert_once_and_in_order(arrived(own_server), 30)
    publish(spark, options)
    assert_once_and_in_order(arrived(own_server), 60)
