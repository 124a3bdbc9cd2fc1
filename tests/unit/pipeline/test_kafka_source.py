"""The options with which Spark's Kafka source reads for the pipeline."""

import pytest

from driftq.model.options.kafka import KafkaOptions
from driftq.pipeline.transport.kafka_topics import source_options


@pytest.mark.clause("Z4")
def test_a_setting_changes_how_much_is_fetched_and_none_shows_messages_that_were_not_committed() -> None:
    own = source_options(KafkaOptions(bootstrap="a:9092"))
    asked = (("max.partition.fetch.bytes", "65536"),)
    less = source_options(KafkaOptions(bootstrap="a:9092", options=asked))
    assert own["kafka.max.partition.fetch.bytes"] == str(8 << 20)
    assert less["kafka.max.partition.fetch.bytes"] == "65536"
    assert {each["kafka.isolation.level"] for each in (own, less)} == {"read_committed"}
