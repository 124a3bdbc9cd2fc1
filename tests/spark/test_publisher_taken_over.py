"""The publisher on Spark and the plain one take over from each other, and the older one is fenced."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from pyspark.errors import StreamingQueryException

from driftq.errors import PublisherReplaced
from driftq.eventstore.stored import StoredEvent
from driftq.model.options.pipeline import PipelineOptions
from driftq.pipeline.publisher.job import Publisher
from driftq.publishing.begin import begin_run
from driftq.publishing.kafka.run import KafkaRun
from driftq.publishing.plain import PlainPublisher
from driftq.publishing.run import PublisherRun
from tests.harness import ServerProcess
from tests.spark.publishing import (
    append_events,
    arrived,
    assert_once_and_in_order,
    newest_checkpoint,
    options_for,
    publish,
)
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture
def own_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """A server with an event log that no other test writes to."""
    with ServerProcess(tmp_path_factory.mktemp("publisher") / "data") as started:
        yield started


def plain_run(options: PipelineOptions) -> PublisherRun:
    return begin_run(options, to_driftq=PublisherRun, to_kafka=KafkaRun)


def stored_events(server: ServerProcess) -> list[StoredEvent]:
    import msgspec

    answer = server.client().get("/v1/events/log", stored="true", limit=10_000)
    return msgspec.json.Decoder(StoredEvent).decode_lines(answer.body)


@pytest.mark.clause("U8")
def test_each_goes_on_where_the_other_was(spark: SparkSession, own_server: ServerProcess) -> None:
    options = options_for(own_server)
    append_events(own_server, 90)
    publish(spark, options)
    append_events(own_server, 70, first=91)
    PlainPublisher(options).run(once=True)
    assert_once_and_in_order(arrived(own_server), 160)
    assert newest_checkpoint(own_server).position == 160
    append_events(own_server, 40, first=161)
    publish(spark, options)
    assert_once_and_in_order(arrived(own_server), 200)


@pytest.mark.clause("U8")
def test_a_running_query_is_fenced_by_the_plain_publisher(
    spark: SparkSession, own_server: ServerProcess
) -> None:
    options = options_for(own_server)
    append_events(own_server, 30)
    publisher = Publisher(options)
    query = publisher.start(spark, once=False)
    try:
        wait_until("Spark has published", lambda: len(arrived(own_server)) == 30, within_s=240)
        append_events(own_server, 30, first=31)
        PlainPublisher(options).run(once=True)
        append_events(own_server, 10, first=61)
        with pytest.raises(StreamingQueryException, match="another publisher has taken over"):
            query.awaitTermination(240)
    finally:
        query.stop()
        publisher.close()
    PlainPublisher(options).run(once=True)
    assert_once_and_in_order(arrived(own_server), 70)


@pytest.mark.clause("U8")
def test_a_plain_zombie_is_fenced_by_spark(spark: SparkSession, own_server: ServerProcess) -> None:
    """It was paused before its first append, and goes on when Spark has published everything."""
    options = options_for(own_server)
    append_events(own_server, 50)
    zombie = plain_run(options)
    read = stored_events(own_server)
    publish(spark, options)
    with pytest.raises(PublisherReplaced):
        zombie.publish_events(read)
        zombie.store_checkpoint()
    assert_once_and_in_order(arrived(own_server), 50)
