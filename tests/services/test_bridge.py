"""A bridge between DriftQ and Kafka copies each message once: over restarts, a zombie and lost topics.

A run's batches are given to its tasks without Spark; tests/services/test_bridge_killed.py has the whole job.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from driftq.errors import (
    BridgeReplaced,
    InvalidArgument,
    KafkaTopicNotFound,
    OffsetOutOfOrder,
    TopicBehind,
    TopicNotFound,
)
from driftq.kafka.cluster import KafkaCluster
from driftq.model.options.kafka import KafkaOptions
from driftq.pipeline.dead_letters.kafka_letters import KafkaDeadLetters
from tests.harness import ServerProcess
from tests.services.bridging import BridgeStage
from tests.services_kafka import kafka

pytestmark = [pytest.mark.clause("Z10"), pytest.mark.timeout(600)]
__all__ = ["kafka"]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with ServerProcess(tmp_path_factory.mktemp("bridge") / "data") as started:
        yield started


@pytest.fixture(params=["to-kafka", "to-driftq"])
def stage(request: pytest.FixtureRequest, server: ServerProcess, kafka: KafkaOptions) -> BridgeStage:
    return BridgeStage.beside(server, kafka, to_kafka=request.param == "to-kafka")


def test_a_run_goes_on_where_the_last_one_ended(stage: BridgeStage) -> None:
    stage.fill(120)
    first = stage.bridge().begin()
    assert first.starting == {}
    stage.feed(first)
    stage.fill(60, first=120)
    second = stage.bridge().begin()
    assert second.starting == stage.next_offsets(before=120)
    stage.feed(second)
    stage.assert_copied(180)
    assert stage.bridge().begin().starting == stage.next_offsets(before=180)


def test_tasks_that_run_twice_add_nothing(stage: BridgeStage) -> None:
    """The second time they have no opening of this process to go on with."""
    stage.fill(120)
    run = stage.bridge().begin()
    stage.feed(run, times=2)
    stage.fill(60, first=120)
    stage.feed(run, times=2)
    stage.assert_copied(180)


def test_a_zombie_adds_nothing_and_learns_that_it_was_replaced(stage: BridgeStage) -> None:
    stage.fill(120)
    zombie = stage.bridge().begin()
    newer = stage.bridge().begin()
    with pytest.raises(BridgeReplaced, match="another bridge from"):
        stage.feed(zombie)
    stage.assert_copied(0)
    stage.feed(newer)
    stage.fill(60, first=120)
    with pytest.raises(BridgeReplaced):
        stage.feed(zombie)
    stage.feed(stage.bridge().begin())
    stage.assert_copied(180)


def test_rows_that_come_late_are_refused_instead_of_being_taken_for_copied(stage: BridgeStage) -> None:
    stage.fill(90)
    run = stage.bridge().begin()
    stage.feed(run, lambda partition, offset: offset >= 15)
    with pytest.raises(OffsetOutOfOrder, match="it could not be told from one that was copied before"):
        stage.feed(run, lambda partition, offset: offset < 15)


def test_a_target_that_was_deleted_gets_every_message_again(stage: BridgeStage) -> None:
    stage.fill(40)
    run = stage.bridge().begin()
    stage.feed(run)
    stage.delete_target()
    stage.fill(10, first=40)
    with pytest.raises(TopicBehind, match="After a restart they are sent again"):
        stage.feed(run, lambda partition, offset: offset >= stage.next_offsets(before=40).get(partition, 0))
    stage.feed(stage.bridge().begin())
    stage.assert_copied(50)


def test_offsets_that_retention_removed_before_they_were_copied_are_named(
    server: ServerProcess, kafka: KafkaOptions
) -> None:
    stage = BridgeStage.beside(server, kafka, to_kafka=False)
    stage.fill(30)
    stage.feed(stage.bridge().begin(), lambda partition, offset: offset < 2)
    with KafkaCluster(kafka) as cluster:
        ends = cluster.end_offsets([stage.topic])
    stage.remove_before({partition: end for (_, partition), end in ends.items()})
    run = stage.bridge().begin()
    assert run.removed == {partition: (2, end) for (_, partition), end in ends.items() if end > 2}
    assert run.starting == {partition: end for (_, partition), end in ends.items()}


@pytest.mark.clause("U7")
def test_a_message_that_kafka_never_takes_is_a_dead_letter_and_holds_up_nothing(
    server: ServerProcess, kafka: KafkaOptions
) -> None:
    stage = BridgeStage.beside(server, kafka, to_kafka=True)
    stage.fill(20)
    large = {"topic": stage.topic, "key": "key-3", "value": "x" * 1_500_000}
    assert server.client().post("/v1/produce", large).status in (200, 201)
    stage.fill(20, first=20)
    stage.feed(stage.bridge().begin())
    stage.assert_copied(40)
    [record] = [one for one in stage.on_driftq() if one["value"].startswith("xx")]
    [letter] = [each.dead_letter for each in KafkaDeadLetters(kafka).read(stage.topic)]
    assert (letter.kind, letter.topic) == ("bridge", stage.topic)
    assert (letter.partition, letter.offset) == (record["partition"], record["offset"])


def test_what_keeps_a_bridge_from_starting_is_told_before_spark_starts(stage: BridgeStage) -> None:
    with pytest.raises(TopicNotFound if stage.to_kafka else KafkaTopicNotFound):
        stage.bridge().check()
    stage.fill(5)
    stage.bridge().check()
    stage.feed(stage.bridge().begin())
    with pytest.raises(InvalidArgument, match="a bridge back would copy each message over and over"):
        stage.reversed().bridge().check()
