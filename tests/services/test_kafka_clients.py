"""Kafka's clients against a real broker: identities, offsets, transactions, refusals."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pytest

from driftq.errors import (
    KafkaLoginRefused,
    KafkaMessageRefused,
    KafkaProducerLost,
    KafkaTopicNotFound,
    KafkaUnavailable,
)
from driftq.kafka.cluster import KafkaCluster
from driftq.kafka.producing import TransactionalProducer
from driftq.kafka.reading import PartitionReader
from driftq.model.options.kafka import KafkaOptions
from tests.services_kafka import KafkaServer, kafka, private_kafka, start_kafka

pytestmark = [pytest.mark.clause("U7", "Z4"), pytest.mark.timeout(600)]
__all__ = ["kafka", "private_kafka"]

PASSWORD = "correct-horse"
SASL = (
    ("security.protocol", "SASL_PLAINTEXT"),
    ("sasl.mechanism", "PLAIN"),
    ("sasl.username", "driftq"),
    ("sasl.password", PASSWORD),
)


@pytest.fixture
def cluster(kafka: KafkaOptions) -> Iterator[KafkaCluster]:
    with KafkaCluster(kafka) as opened:
        yield opened


@pytest.fixture
def topic(cluster: KafkaCluster) -> str:
    name = f"test-{uuid.uuid4().hex}"
    assert cluster.create_topic(name, partitions=2)
    return name


def values(kafka: KafkaOptions, topic: str, partition: int = 0) -> list[bytes | None]:
    with KafkaCluster(kafka) as cluster:
        end = cluster.end_offsets([topic], committed=False)[topic, partition]
    reader = PartitionReader(kafka, patience_s=5)
    try:
        return [message.value() for message in reader.read(topic, partition, start=0, end=end)]
    finally:
        reader.close()


def test_a_cluster_and_its_topics_have_identities(
    kafka: KafkaOptions, cluster: KafkaCluster, topic: str
) -> None:
    with KafkaCluster(kafka) as another:
        assert another.cluster_id() == cluster.cluster_id()
    assert cluster.topics()[topic] == cluster.partitions(topic) == 2
    assert not cluster.create_topic(topic, partitions=9), "an existing topic is left as it is"
    first = cluster.topic_ids([topic, "no-such-topic"])
    assert list(first) == [topic]
    cluster.delete_topic(topic)
    cluster.delete_topic("no-such-topic")
    assert cluster.create_topic(topic, partitions=2)
    assert cluster.topic_ids([topic]) != first, "a topic of the same name is another one"
    with pytest.raises(KafkaTopicNotFound, match="Kafka has no topic 'no-such-topic'"):
        cluster.end_offsets(["no-such-topic"])


def test_only_committed_messages_are_read(kafka: KafkaOptions, cluster: KafkaCluster, topic: str) -> None:
    producer = TransactionalProducer(kafka, f"one-{topic}")
    producer.begin()
    producer.send(topic, b"aborted", "k", partition=0)
    producer.flush()
    producer.abort()
    producer.begin()
    producer.send(topic, b"committed", "k", [("position", "7")], partition=0)
    producer.commit()
    assert values(kafka, topic) == [b"committed"]
    assert cluster.beginning_offsets([topic]) == {(topic, 0): 0, (topic, 1): 0}


def test_an_open_transaction_hides_what_comes_after_it(
    kafka: KafkaOptions, cluster: KafkaCluster, topic: str
) -> None:
    """A reader that stopped at the end of the committed part would miss a committed message."""
    slow, fast = TransactionalProducer(kafka, f"slow-{topic}"), TransactionalProducer(kafka, f"fast-{topic}")
    slow.begin()
    slow.send(topic, b"slow", "k", partition=0)
    slow.flush()
    fast.begin()
    fast.send(topic, b"fast", "k", partition=0)
    fast.commit()
    ends = cluster.end_offsets([topic]), cluster.end_offsets([topic], committed=False)
    assert ends[0][topic, 0] < ends[1][topic, 0]
    reader = PartitionReader(kafka, patience_s=1)
    with pytest.raises(KafkaUnavailable, match="a transaction stays open"):
        list(reader.read(topic, 0, start=0, end=ends[1][topic, 0]))
    reader.close()
    slow.commit()
    assert values(kafka, topic) == [b"slow", b"fast"]


def test_the_last_producer_of_an_id_fences_those_before_it(kafka: KafkaOptions, topic: str) -> None:
    first = TransactionalProducer(kafka, f"same-{topic}")
    first.begin()
    first.send(topic, b"first", "k", partition=0)
    first.flush()
    second = TransactionalProducer(kafka, f"same-{topic}")
    with pytest.raises(KafkaProducerLost):
        first.commit()
    second.begin()
    second.send(topic, b"second", "k", partition=0)
    second.commit()
    assert values(kafka, topic) == [b"second"]


def test_a_message_that_is_too_large_aborts_its_transaction_and_no_other(
    kafka: KafkaOptions, topic: str
) -> None:
    producer = TransactionalProducer(kafka, f"large-{topic}")
    producer.begin()
    producer.send(topic, b"small", "k", partition=0)
    producer.send(topic, b"x" * 3_000_000, "k", partition=0)
    with pytest.raises(KafkaMessageRefused, match="too large"):
        producer.commit()
    assert any(one.is_too_large and one.size_bytes == 3_000_000 for one in producer.refused)
    next_one = TransactionalProducer(kafka, f"large-{topic}")
    next_one.begin()
    next_one.send(topic, b"small", "k", partition=0)
    next_one.commit()
    assert values(kafka, topic) == [b"small"]


def test_a_broker_that_is_away_is_told_and_a_producer_outlives_its_restart(
    private_kafka: KafkaServer,
) -> None:
    options = private_kafka.options
    with KafkaCluster(options) as cluster:
        cluster.create_topic("outage")
        producer = TransactionalProducer(options, "outage", patience_s=120)
        producer.begin()
        producer.send("outage", b"before", "k", partition=0)
        producer.flush()
        private_kafka.kill()
        with pytest.raises(KafkaUnavailable, match=f"Kafka does not answer at {options.bootstrap}: "):
            KafkaCluster(options, answer_s=1).cluster_id()
        producer.send("outage", b"during", "k", partition=0)
        private_kafka.start()
        producer.commit()
        assert values(options, "outage") == [b"before", b"during"]


def test_a_wrong_password_is_told_in_one_sentence_without_it() -> None:
    users = f'required user_driftq="{PASSWORD}" username="driftq" password="{PASSWORD}";'
    login = f"org.apache.kafka.common.security.plain.PlainLoginModule {users}"
    settings = {
        "listener.security.protocol.map": "PLAINTEXT:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT",
        "sasl.enabled.mechanisms": "PLAIN",
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        "listener.name.plaintext.plain.sasl.jaas.config": login,
    }
    server = start_kafka(settings=settings, clients=SASL)
    try:
        with KafkaCluster(server.options) as cluster:
            assert cluster.cluster_id()
        wrong = KafkaOptions(bootstrap=server.bootstrap, options=(*SASL[:3], ("sasl.password", "hunter2")))
        for attempt in (KafkaCluster.cluster_id, KafkaCluster.topics):
            with KafkaCluster(wrong, answer_s=5) as cluster, pytest.raises(KafkaLoginRefused) as refused:
                attempt(cluster)
            assert "hunter2" not in str(refused.value)
            assert "refuses the login" in str(refused.value)
        with pytest.raises(KafkaLoginRefused):
            TransactionalProducer(wrong, "someone", patience_s=5)
    finally:
        server.remove()
