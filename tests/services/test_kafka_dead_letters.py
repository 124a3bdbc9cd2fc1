"""Dead letters of handlers on a real Kafka: every fact in a header, and each id listed once."""

from __future__ import annotations

import itertools
import multiprocessing
import os
import signal
from collections.abc import Sequence
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, ConfigResource, ResourceType  # type: ignore[attr-defined]

from driftq.errors import KafkaUnavailable
from driftq.kafka.cluster import KafkaCluster
from driftq.model.dead_letter import HandlerDeadLetter, HandlerKind, newest_of_each
from driftq.model.options.kafka import KafkaOptions
from driftq.pipeline.dead_letters.kafka_letters import KafkaDeadLetters
from driftq.pipeline.dead_letters.relay import Relay
from tests.acceptance.dead_letters.outboxes import KINDS, Place
from tests.services_kafka import KafkaServer, kafka, private_kafka
from tests.services_postgres import postgres_database_url, postgres_url

__all__ = ["kafka", "postgres_database_url", "postgres_url", "private_kafka"]

_numbers = itertools.count()
_fork = multiprocessing.get_context("fork")


def new_topic(options: KafkaOptions, *, partitions: int = 3) -> str:
    name = f"letters-{os.getpid()}-{next(_numbers)}"
    with KafkaCluster(options) as cluster:
        assert cluster.create_topic(name, partitions=partitions)
    return name


def letter(topic: str, offset: int = 0, **fields: object) -> HandlerDeadLetter:
    given: dict[str, object] = {
        "kind": HandlerKind.WORKER,
        "handler": "billing",
        "topic": topic,
        "partition": offset % 4,
        "offset": offset,
        "stage": "handle",
        "error": "ValueError: brökén",
        "reason": "max_attempts",
        "attempts": 6,
        "at": 1_700_000_000_123,
        "key": f"o-{offset}",
        "value": f'{{"n":{offset}}}',
        "event_id": f"e-{offset}",
        "identity": "kafka/cluster/topic",
    }
    return HandlerDeadLetter(**given | fields)  # type: ignore[arg-type]


def listed(options: KafkaOptions, topic: str) -> list[HandlerDeadLetter]:
    return newest_of_each(each.dead_letter for each in KafkaDeadLetters(options).read(topic))


@pytest.mark.clause("K5", "K10", "K5d")
def test_every_fact_is_read_back_from_the_topic(kafka: KafkaOptions) -> None:
    topic = new_topic(kafka)
    letters = [
        letter(topic, 0),
        letter(topic, 1, kind=HandlerKind.PROJECTION, stage="decode", event_id=None, identity="", key=""),
        letter(topic, 2, redrives=3, value="é" * 1000),
        letter(topic, 3, value=None),
    ]
    topics = KafkaDeadLetters(kafka)
    assert topics.publish(letters) == [None] * 4
    found = list(topics.read(topic))
    assert sorted((each.dead_letter for each in found), key=lambda each: each.offset) == letters
    assert {each.dead_letter.offset: each.partition for each in found} == {0: 0, 1: 1, 2: 2, 3: 0}
    with KafkaCluster(kafka) as cluster:
        assert cluster.partitions(f"dlq.{topic}") == 3
    [count] = [each for each in topics.topics() if each.topic == topic]
    assert (count.dead_letters, count.oldest_at) == (4, 1_700_000_000_123)
    assert list(topics.read("never-heard-of")) == []


@pytest.mark.clause("K10")
def test_dead_letters_are_kept_for_good(kafka: KafkaOptions) -> None:
    topic = new_topic(kafka)
    KafkaDeadLetters(kafka).publish([letter(topic)])
    admin = AdminClient({"bootstrap.servers": str(kafka.bootstrap)})
    resource = ConfigResource(ResourceType.TOPIC, f"dlq.{topic}")
    [described] = admin.describe_configs([resource]).values()
    assert described.result(30)["retention.ms"].value == "-1"


@pytest.mark.clause("K10")
def test_repeats_and_second_deaths_are_listed_once(kafka: KafkaOptions) -> None:
    topic = new_topic(kafka)
    topics = KafkaDeadLetters(kafka)
    for _ in range(3):
        topics.publish([letter(topic, 0), letter(topic, 1)])
    again = letter(topic, 0, redrives=1, error="still")
    topics.publish([again])
    topics.publish([letter(topic, 0)])
    assert len(list(topics.read(topic))) == 8
    assert sorted(listed(kafka, topic), key=lambda each: each.offset) == [again, letter(topic, 1)]
    [count] = [each for each in topics.topics() if each.topic == topic]
    assert count.dead_letters == 2


@pytest.mark.clause("K10")
def test_a_value_that_kafka_does_not_take_is_left_out_and_said_to_be(kafka: KafkaOptions) -> None:
    topic = new_topic(kafka)
    huge = letter(topic, 0, value="x" * 2_000_000)
    assert KafkaDeadLetters(kafka).publish([letter(topic, 1), huge, letter(topic, 2)]) == [None] * 3
    by_offset = {each.offset: each for each in listed(kafka, topic)}
    assert {offset: each.value is None for offset, each in by_offset.items()} == {0: True, 1: False, 2: False}
    assert by_offset[0].id == huge.id


@pytest.mark.clause("K10")
def test_messages_of_other_programs_are_no_dead_letters(kafka: KafkaOptions) -> None:
    from confluent_kafka import Producer

    topic = new_topic(kafka)
    topics = KafkaDeadLetters(kafka)
    topics.publish([letter(topic)])
    producer = Producer({"bootstrap.servers": str(kafka.bootstrap)})
    producer.produce(f"dlq.{topic}", b"mine", headers=[("dlq.kind", b"worker"), ("dlq.at", None)])
    producer.flush(30)
    assert listed(kafka, topic) == [letter(topic)]


STEPS = ("before publish", "after publish", "before mark", "after mark")


def _relay(place: Place, options: KafkaOptions, stop_at: str) -> None:
    """In a process of its own, which is killed at the step."""

    def step(name: str) -> None:
        if name == stop_at:
            os.kill(os.getpid(), signal.SIGKILL)

    class Steps(KafkaDeadLetters):
        def publish(self, dead_letters: Sequence[HandlerDeadLetter]) -> list[str | None]:
            step("before publish")
            results = super().publish(dead_letters)
            step("after publish")
            return results

    with place.outbox() as outbox:
        marking = outbox.mark_published

        def mark(dead_letters: Sequence[HandlerDeadLetter]) -> None:
            step("before mark")
            marking(dead_letters)
            step("after mark")

        outbox.mark_published = mark  # type: ignore[method-assign]
        Relay("relay", [outbox], Steps(options), page=2).run()


@pytest.mark.clause("V3", "K5", "K10", "K5d", "V3d")
@pytest.mark.parametrize("engine", ["sqlite", "postgres"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_relay_killed_at_any_step_leaves_each_dead_letter_once(
    kind: str, engine: str, kafka: KafkaOptions, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    if engine == "sqlite":
        url = f"sqlite:///{tmp_path}/letters.db"
    else:
        url = request.getfixturevalue("postgres_database_url")
    place = Place(kind, url, f"kafka_{kind}_{os.getpid()}")
    for stop_at in (*STEPS, "never"):
        one = place.named("kafka")
        one.fill(5)
        for point in (stop_at, "never"):
            process = _fork.Process(target=_relay, args=(one, kafka, point))
            process.start()
            process.join(120)
            assert process.exitcode == (0 if point == "never" else -signal.SIGKILL)
        assert sorted(each.value or "" for each in listed(kafka, one.topic)) == [
            f"text {n}" for n in range(5)
        ]
        assert one.waiting() == []


@pytest.mark.clause("K10")
def test_a_broker_that_is_away_keeps_dead_letters_in_their_outbox(
    private_kafka: KafkaServer, tmp_path: Path
) -> None:
    place = Place("worker", f"sqlite:///{tmp_path}/letters.db", "away")
    place.fill(3)
    private_kafka.kill()
    with place.outbox() as outbox:
        relay = Relay("relay", [outbox], KafkaDeadLetters(private_kafka.options, patience_s=5))
        with pytest.raises(KafkaUnavailable):
            relay.run()
        assert len(outbox.pending(limit=10)) == 3
        private_kafka.start()
        assert relay.run() == 3
    assert len(listed(private_kafka.options, "orders")) == 3
