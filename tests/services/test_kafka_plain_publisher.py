"""The publisher without Spark on Kafka: the same lanes and positions, and it takes over from Spark's."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from driftq.errors import PublisherReplaced
from driftq.model.options.kafka import KafkaOptions
from driftq.publishing.begin import begin_run
from driftq.publishing.kafka.run import KafkaRun
from driftq.publishing.plain import PlainPublisher
from driftq.publishing.run import PublisherRun
from tests.services.kafka_publishing import EventSource, arrived
from tests.services_kafka import kafka
from tests.spark.publishing import assert_once_and_in_order, publish
from tests.spark.test_publisher_taken_over import stored_events

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.timeout(1200)
__all__ = ["kafka"]


@pytest.mark.clause("U7", "U8")
def test_plain_and_spark_go_on_where_the_other_was(
    spark: SparkSession, kafka: KafkaOptions, source: EventSource
) -> None:
    options = source.options(kafka, transaction_events=20)
    source.append(70)
    PlainPublisher(options).run(once=True)
    assert_once_and_in_order(arrived(kafka, source), 70)
    source.append(50, first=71)
    publish(spark, options)
    assert_once_and_in_order(arrived(kafka, source), 120)
    source.append(30, first=121)
    PlainPublisher(options).run(once=True)
    assert_once_and_in_order(arrived(kafka, source), 150)


@pytest.mark.clause("U7", "U8")
def test_a_plain_zombie_adds_nothing(kafka: KafkaOptions, source: EventSource) -> None:
    options = source.options(kafka)
    source.append(40)
    zombie = begin_run(options, to_driftq=PublisherRun, to_kafka=KafkaRun)
    read = stored_events(source.server)
    PlainPublisher(options).run(once=True)
    with pytest.raises(PublisherReplaced):
        zombie.publish_events(read)
    zombie.close()
    assert_once_and_in_order(arrived(kafka, source), 40)
