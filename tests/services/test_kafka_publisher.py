"""The publisher to Kafka: every event once and in order, whatever is lost or created again meanwhile."""

from __future__ import annotations

import logging
import shutil
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pyspark.errors import StreamingQueryException

from driftq.errors import BatchOutOfOrder, InvalidArgument, KafkaUnavailable, PositionsAhead, TopicBehind
from driftq.kafka.cluster import KafkaCluster
from driftq.model.options.kafka import KafkaOptions
from driftq.model.options.pipeline import DRIFTQ, KAFKA, PipelineOptions
from driftq.pipeline.publisher.job import Publisher
from driftq.publishing.kafka.positions import POSITIONS_TOPIC
from tests.services.kafka_publishing import EventSource, arrived, copies, messages
from tests.services_kafka import KafkaServer, kafka, private_kafka
from tests.spark.publishing import arrived as arrived_on_driftq
from tests.spark.publishing import assert_once_and_in_order, effects_of, publish

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.timeout(1200)
__all__ = ["kafka", "private_kafka"]


def checkpoints(source: EventSource) -> Path:
    return source.server.data / "objects" / "publisher-kafka"


@pytest.mark.clause("U1", "U2", "U4", "U5", "U7", "Z1", "Z4")
def test_events_are_published_once_and_in_order_over_several_starts(
    spark: SparkSession, kafka: KafkaOptions, source: EventSource, caplog: pytest.LogCaptureFixture
) -> None:
    options = source.options(kafka, transaction_events=20)
    caplog.set_level(logging.INFO, logger="driftq.publisher")
    source.append(150)
    publish(spark, options)
    assert_once_and_in_order(arrived(kafka, source), 150)
    source.append(60, first=151)
    publish(spark, options)
    assert_once_and_in_order(arrived(kafka, source), 210)
    assert "60 events published" in caplog.text


@pytest.mark.clause("U2", "U3", "U6", "U7", "X1")
def test_a_rolled_back_and_a_lost_checkpoint_add_nothing(
    spark: SparkSession, kafka: KafkaOptions, source: EventSource, tmp_path: Path
) -> None:
    """Kafka has the positions, and the identity of the log is not part of the checkpoint."""
    options = source.options(kafka)
    source.append(40)
    publish(spark, options)
    shutil.copytree(checkpoints(source), tmp_path / "old")
    source.append(30, first=41)
    publish(spark, options)
    shutil.rmtree(checkpoints(source))
    shutil.copytree(tmp_path / "old", checkpoints(source))
    publish(spark, options)
    assert_once_and_in_order(arrived(kafka, source), 70)
    shutil.rmtree(checkpoints(source))
    source.append(10, first=71)
    publish(spark, options)
    assert_once_and_in_order(arrived(kafka, source), 80)


@pytest.mark.clause("U6", "U7", "X1")
def test_a_topic_that_is_deleted_or_created_again_gets_everything_again_and_no_other_does(
    spark: SparkSession, kafka: KafkaOptions, source: EventSource
) -> None:
    """Deleted between two runs; and under a run, which notices before it sends more."""
    options = source.options(kafka, transaction_events=7)
    source.append(60)
    publish(spark, options)
    with KafkaCluster(kafka) as cluster:
        cluster.delete_topic(source.topics[0])
        publish(spark, options)
        assert_once_and_in_order(arrived(kafka, source), 60)
        run = Publisher(options).begin()
        cluster.delete_topic(source.topics[1])
        cluster.create_topic(source.topics[1])
        source.append(20, first=61)
        with pytest.raises(TopicBehind, match=f"topic {source.topics[1]} was deleted"):
            run.publish(_rows(spark, options, after=run.after))
        assert [one.topic for one in messages(kafka, source.topics)] == [source.topics[0]] * 30
    publish(spark, options)
    assert_once_and_in_order(arrived(kafka, source), 80)


def _rows(spark: SparkSession, options: PipelineOptions, *, after: int) -> DataFrame:
    """The log after a position, as one batch."""
    reading = spark.read.format("driftq-events").option("url", options.url).option("data", options.data)
    return reading.option("startingPosition", after + 1).load()


@pytest.mark.clause("U6", "U7", "X1")
def test_lost_positions_publish_everything_again_and_effects_stay_single(
    spark: SparkSession, private_kafka: KafkaServer, source: EventSource, tmp_path: Path
) -> None:
    kafka = private_kafka.options
    options = source.options(kafka)
    source.append(50)
    publish(spark, options)
    with KafkaCluster(kafka) as cluster:
        cluster.delete_topic(POSITIONS_TOPIC)
    publish(spark, options)
    events = arrived(kafka, source)
    assert copies(events) == {2: 50}
    assert effects_of(events, tmp_path) == {f"e{number}": 1 for number in range(1, 51)}
    source.append(10, first=51)
    publish(spark, options)
    assert copies(arrived(kafka, source)) == {2: 50, 1: 10}


@pytest.mark.clause("U2", "U7", "Z6")
def test_of_two_publishers_the_newer_goes_on_and_the_older_is_told(
    spark: SparkSession, kafka: KafkaOptions, source: EventSource
) -> None:
    options = source.options(kafka)
    source.append(30)
    publish(spark, options)
    source.append(30, first=31)

    class Older(Publisher):
        """Another publisher takes over between its start and its first batch."""

        def events(self, spark: SparkSession, *, after: int) -> DataFrame:
            Publisher(options).begin()
            return super().events(spark, after=after)

    query = Older(options).start(spark, once=True)
    with pytest.raises(StreamingQueryException, match="another publisher has taken over"):
        query.awaitTermination(240)
    assert_once_and_in_order(arrived(kafka, source), 30)
    publish(spark, options)
    assert_once_and_in_order(arrived(kafka, source), 60)


@pytest.mark.clause("U7")
def test_a_batch_that_is_late_or_incomplete_is_refused_before_anything_of_it_is_sent(
    spark: SparkSession, kafka: KafkaOptions, source: EventSource
) -> None:
    options = source.options(kafka)
    source.append(60)
    run = Publisher(options).begin()
    rows = _rows(spark, options, after=0)
    late = rows.where("position > 20")
    with_a_hole = rows.where("position <= 40 AND position != 17")
    doubled = with_a_hole.unionAll(rows.where("position = 3"))
    for wrong, count in ((late, 40), (with_a_hole, 39), (doubled, 39)):
        with pytest.raises(BatchOutOfOrder, match=f"a batch of the event log has {count} events from"):
            run.publish(wrong)
    assert arrived(kafka, source) == []
    run.publish(rows.unionAll(rows.where("position = 3")))
    assert_once_and_in_order(arrived(kafka, source), 60)


@pytest.mark.clause("U7", "Z4")
def test_a_switch_of_the_transport_leaves_nothing_out_on_either_side(
    spark: SparkSession, kafka: KafkaOptions, source: EventSource
) -> None:
    to_kafka = source.options(kafka)
    to_driftq = replace(to_kafka, transport=DRIFTQ)
    source.append(30)
    publish(spark, to_driftq)
    source.append(30, first=31)
    publish(spark, to_kafka)
    assert_once_and_in_order(arrived(kafka, source), 60)
    source.append(30, first=61)
    publish(spark, to_driftq)
    assert_once_and_in_order(arrived_on_driftq(source.server, source.topics), 90)
    publish(spark, replace(to_driftq, transport=KAFKA))
    assert_once_and_in_order(arrived(kafka, source), 90)


@pytest.mark.clause("U7")
def test_an_event_that_is_too_large_does_not_stop_the_others(
    spark: SparkSession, private_kafka: KafkaServer, source: EventSource
) -> None:
    kafka = private_kafka.options
    with KafkaCluster(kafka) as cluster:
        for topic in source.topics:
            cluster.create_topic(topic, config={"max.message.bytes": "20000"})
    source.append(20)
    source.append(1, first=21, payload={"text": "x" * 50_000})
    source.append(20, first=22)
    publish(spark, source.options(kafka))
    found = arrived(kafka, source)
    assert Counter(event.event_id for event in found) == {f"e{n}": 1 for n in range(1, 42) if n != 21}
    (letter,) = messages(kafka, [f"dlq.{topic}" for topic in source.topics])
    assert (letter.headers["event_id"], letter.headers["stage"]) == ("e21", "publish")


@pytest.mark.clause("U7")
def test_a_log_that_is_older_than_what_was_published_of_it_is_refused(
    spark: SparkSession, kafka: KafkaOptions, source: EventSource, tmp_path: Path
) -> None:
    options = source.options(kafka)
    source.append(10)
    source.server.terminate(within_s=60.0)
    shutil.copytree(source.server.data, tmp_path / "backup")
    source.server.start()
    source.append(10, first=11)
    publish(spark, options)
    identity = (source.server.data / "objects/identity/event-log").read_bytes()
    source.server.terminate(within_s=60.0)
    shutil.rmtree(source.server.data)
    shutil.copytree(tmp_path / "backup", source.server.data)
    (source.server.data / "objects/identity").mkdir(parents=True, exist_ok=True)
    (source.server.data / "objects/identity/event-log").write_bytes(identity)
    source.server.start()
    with pytest.raises(PositionsAhead, match="the event log ends at 10, and was published up to 20"):
        Publisher(options).begin()


@pytest.mark.clause("Z4", "N1")
def test_what_keeps_it_from_starting_is_said_before_spark_starts(source: EventSource) -> None:
    away = KafkaOptions(bootstrap="127.0.0.1:1")
    with pytest.raises(KafkaUnavailable, match=r"Kafka does not answer at 127\.0\.0\.1:1: "):
        Publisher(source.options(away)).check()
    typo = KafkaOptions(bootstrap="127.0.0.1:1", options=(("sasl.usrname", "u"),))
    with pytest.raises(InvalidArgument, match="DRIFTQ_KAFKA_SASL_USRNAME: Kafka's client has no option"):
        Publisher(source.options(typo)).check()
