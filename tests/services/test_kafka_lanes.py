"""The publisher's tasks against a real Kafka, without Spark: late, doubled, fenced and zombie ones."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

from driftq.errors import KafkaProducerLost, KafkaUnavailable, PublisherReplaced
from driftq.eventstore.objects import open_objects
from driftq.eventstore.published import topic_of
from driftq.eventstore.stored import StoredEvent
from driftq.kafka.cluster import KafkaCluster
from driftq.model.options.kafka import KafkaOptions
from driftq.pipeline.publisher.kafka.task import KafkaLaneTask
from driftq.publishing.checkpoint import Checkpoint, CheckpointStore
from driftq.publishing.kafka import run as runs
from driftq.publishing.kafka import writer as writers
from driftq.publishing.kafka.lane import LaneLog, OpenLane, OutgoingEvent
from driftq.publishing.kafka.letters import UnsentEvent
from driftq.publishing.kafka.positions import LanePositions, LaneRefused, RunStamp, positions_of
from driftq.publishing.kafka.sends import LaneReport
from driftq.publishing.kafka.take_over import TakenLanes, prepare_positions, take_lanes
from tests.services.kafka_publishing import KafkaMessage, messages
from tests.services_kafka import kafka
from tests.unit.eventstore.test_segment import an_event
from tests.unit.pipeline.test_lane_task import batch

pytestmark = [pytest.mark.clause("U7"), pytest.mark.timeout(600)]
__all__ = ["kafka"]

LANES = 2
PATIENCE_S = 60.0


@dataclass
class Stage:
    """One event log's lanes on a shared broker, and tasks of its runs."""

    kafka: KafkaOptions
    log: str = field(default_factory=lambda: f"log-{uuid.uuid4().hex}")
    epoch: int = 0

    def __post_init__(self) -> None:
        self.kind = f"kind-{self.log[-8:]}"
        self.topic = topic_of(self.kind)
        self.lanes = LaneLog(self.kafka, self.log, patience_s=PATIENCE_S)
        prepare_positions(self.lanes.cluster, lanes=4)

    def take_over(self) -> TakenLanes:
        """A new run begins."""
        self.epoch += 1
        return take_lanes(self.lanes, RunStamp(self.epoch, uuid.uuid4().hex), count=LANES)

    def task(self, taken: TakenLanes, first: int, last: int, **fields: Any) -> KafkaLaneTask:
        lanes = writers.LaneTargets(
            options=self.kafka,
            log=self.log,
            run=taken.run,
            openings=fields.pop("openings", {}),
            flush_events=fields.pop("flush_events", 3),
            patience_s=PATIENCE_S,
        )
        given: dict[str, Any] = {
            "lanes": lanes,
            "first": first,
            "last": last,
            "topic_ids": dict(taken.topic_ids),
            "transaction_events": 5,
            "recent_max": 4,
        }
        return KafkaLaneTask(**given | fields)

    def events(self, positions: Sequence[int], **fields: Any) -> list[StoredEvent]:
        given = {"aggregate_type": self.kind, "aggregate_id": "a1"} | fields
        return [an_event(position, **given) for position in positions]

    def send(self, taken: TakenLanes, first: int, last: int, *, lane: int = 0, **fields: Any) -> LaneReport:
        """All events from `first` to `last` are of this lane."""
        rows = batch(self.events(range(first, last + 1)), lane=lane)
        return self.task(taken, first, last, **fields).publish(lane, iter([rows]))

    def found(self) -> list[int]:
        """The positions on the topic, in the order of their offsets."""
        return [message.event.position for message in messages(self.kafka, [self.topic])]

    def positions(self, lane: int = 0) -> LanePositions:
        found = self.lanes.settled(lane, self.lanes.look(lane))
        assert found is not None
        return found


@pytest.fixture
def stage(kafka: KafkaOptions) -> Iterator[Stage]:
    opened = Stage(kafka)
    yield opened
    for lane in writers._open.values():
        lane.close()
    writers._open.clear()
    opened.lanes.close()


def test_a_lane_ends_at_the_end_of_each_batch_with_events_or_without(stage: Stage) -> None:
    taken = stage.take_over()
    first = stage.send(taken, 1, 12)
    empty = stage.task(taken, 1, 12).publish(1, iter([]))
    assert (first.events, first.sent, first.refusal) == (12, 12, None)
    assert (empty.events, empty.sent, empty.refusal) == (0, 0, None)
    assert first.topics == stage.lanes.cluster.topic_ids([stage.topic])
    assert first.recent == [(number, f"e{number}") for number in range(9, 13)]
    assert stage.found() == list(range(1, 13))
    assert (stage.positions(0).position, stage.positions(1).position) == (12, 12)


def test_a_batch_that_comes_again_is_not_sent_again(stage: Stage) -> None:
    taken = stage.take_over()
    stage.send(taken, 1, 12)
    again = stage.send(taken, 1, 12)
    longer = stage.send(taken, 8, 15)
    assert (again.events, again.sent) == (12, 0)
    assert (longer.events, longer.sent) == (8, 3)
    assert stage.found() == list(range(1, 16))


def test_a_batch_that_comes_late_is_refused_and_never_skipped(stage: Stage) -> None:
    """To skip what is at or below the position would drop the second batch if the third came first."""
    taken = stage.take_over()
    stage.send(taken, 1, 10)
    third = stage.send(taken, 21, 30)
    assert third.refusal is not None
    assert not third.refusal.replaced
    assert "lane 0 is at 10, and a batch begins at 21" in third.refusal.text
    assert stage.send(taken, 11, 20).sent == 10
    assert stage.send(taken, 21, 30).sent == 10
    assert stage.found() == list(range(1, 31))


def test_a_zombie_adds_nothing_and_does_not_disturb_the_newer_run(stage: Stage) -> None:
    older = stage.take_over()
    kept = stage.send(older, 1, 10)
    newer = stage.take_over()
    assert newer.positions[0].position == 10
    going_on = stage.send(newer, 11, 15)
    for openings in ({}, {0: str(kept.opening)}):
        late = stage.task(older, 11, 20, openings=openings).publish(
            0, iter([batch(stage.events(range(11, 21)))])
        )
        assert late.refusal is not None
        assert late.refusal.replaced
    after = stage.send(newer, 16, 20, openings={0: str(going_on.opening)})
    assert (after.sent, after.opening) == (5, going_on.opening), "its producer was not fenced"
    assert stage.found() == list(range(1, 21))


def test_a_zombie_with_an_open_transaction_adds_nothing_of_it(stage: Stage) -> None:
    older = stage.take_over()
    stage.lanes.cluster.create_topic(stage.topic)
    zombie = OpenLane(stage.lanes, 0, older.run)
    zombie.producer.begin()
    zombie.producer.send(stage.topic, b"{}", "a1")
    zombie.producer.flush()
    newer = stage.take_over()
    stage.send(newer, 1, 10)
    with pytest.raises(KafkaProducerLost):
        zombie.producer.commit()
    assert stage.found() == list(range(1, 11))


def test_two_copies_of_a_task_send_each_event_once(stage: Stage) -> None:
    """The second copy opens the lane while the first is in the middle of it, which fences the first."""
    taken = stage.take_over()
    stage.send(taken, 1, 4)
    copy: list[LaneReport] = []

    def rows() -> Iterator[Any]:
        yield batch(stage.events(range(5, 12)))
        other = {**writers._open}
        writers._open.clear()  # As in another process.
        copy.append(stage.send(taken, 5, 16))
        writers._open.clear()
        writers._open.update(other)
        yield batch(stage.events(range(12, 17)))

    first = stage.task(taken, 5, 16).publish(0, rows())
    assert (first.refusal, copy[0].refusal) == (None, None)
    assert first.sent + copy[0].sent == 12
    assert stage.found() == list(range(1, 17))
    assert stage.positions().position == 16


def test_a_take_over_in_the_middle_of_a_task_ends_the_task(stage: Stage) -> None:
    older = stage.take_over()
    stage.send(older, 1, 4)
    newer: list[TakenLanes] = []

    def rows() -> Iterator[Any]:
        yield batch(stage.events(range(5, 12)))
        newer.append(stage.take_over())
        yield batch(stage.events(range(12, 17)))

    report = stage.task(older, 5, 16).publish(0, rows())
    assert report.refusal is not None
    assert report.refusal.replaced
    assert newer[0].positions[0].position == stage.positions().position
    at = newer[0].positions[0].position
    stage.send(newer[0], at + 1, 16)
    assert stage.found() == list(range(1, 17))


def test_a_take_over_that_a_late_task_fences_begins_that_lane_again(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The task opened the lane between the new run's producer and its commit: its events count."""
    older = stage.take_over()
    stage.send(older, 1, 4)
    settled = LaneLog.settled
    calls = 0

    def disturbed(lanes: LaneLog, lane: int, look: Any) -> LanePositions | None:
        nonlocal calls
        calls += 1
        found = settled(lanes, lane, look)
        if calls == 1:
            writers._open.clear()
            monkeypatch.setattr(LaneLog, "settled", settled)
            assert stage.send(older, 5, 9).sent == 5
        return found

    monkeypatch.setattr(LaneLog, "settled", disturbed)
    newer = stage.take_over()
    assert newer.positions[0].position == 9
    assert stage.send(older, 10, 12).refusal is not None
    assert stage.found() == list(range(1, 10))


def test_an_epoch_that_was_too_low_is_raised_instead_of_giving_up(
    stage: Stage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The checkpoint is lost, and an open transaction of another log hides the newest stamp at first."""
    stage.epoch = 8
    stage.take_over()
    monkeypatch.setattr(runs, "newest_epoch", lambda lanes, numbers: (0, None))
    objects = open_objects(tmp_path.as_uri())
    store = CheckpointStore(objects, folder="publisher-kafka/test")
    checkpoint, taken = runs._take_over(stage.lanes, store, Checkpoint(publisher=stage.log, lanes=LANES))
    assert (checkpoint.epoch, taken.run.epoch) == (10, 10)
    assert stage.positions().run == taken.run
    other = CheckpointStore(objects, folder="publisher-kafka/test")
    other.load()
    other.save(checkpoint)
    with pytest.raises(PublisherReplaced):
        runs._take_over(stage.lanes, store, checkpoint)


def test_positions_that_are_lost_while_a_run_goes_on_stop_it(stage: Stage) -> None:
    taken = stage.take_over()
    gone = replace(stage, log=f"log-{uuid.uuid4().hex}")
    rows = batch(stage.events(range(1, 5)))
    report = gone.task(taken, 1, 4).publish(0, iter([rows]))
    assert report.refusal is not None
    assert not report.refusal.replaced
    assert "driftq.positions is gone" in report.refusal.text


def test_a_topic_that_is_another_one_gets_everything_again_and_the_others_nothing(stage: Stage) -> None:
    taken = stage.take_over()
    other = stage.kind + "-other"
    every = stage.events(range(1, 11))
    mixed = [
        msgspec.structs.replace(event, aggregate_type=other) if event.position % 2 else event
        for event in every
    ]
    stage.task(taken, 1, 10).publish(0, iter([batch(mixed)]))
    stage.lanes.cluster.delete_topic(stage.topic)
    again = stage.take_over()
    assert (again.lowest, again.behind) == (0, [stage.topic])
    half = stage.task(again, 1, 6, transaction_events=2).publish(0, iter([batch(mixed[:6])]))
    assert (half.sent, half.events) == (3, 6)
    assert stage.positions().sent(stage.topic) == 6
    third = stage.take_over()
    assert third.positions[0].lowest == 6, "what the new topic has got is not sent again"
    more = mixed[6:] + stage.events(range(11, 14))
    stage.task(third, 7, 13).publish(0, iter([batch(more)]))
    assert stage.found() == [2, 4, 6, 8, 10, 11, 12, 13]
    assert [one.event.position for one in messages(stage.kafka, [topic_of(other)])] == [1, 3, 5, 7, 9]
    assert stage.positions().behind == []


@pytest.mark.parametrize("client_limit", [None, "2000000"])
def test_an_event_that_is_too_large_becomes_a_dead_letter_and_holds_nobody_up(
    stage: Stage, client_limit: str | None
) -> None:
    """Whether the broker refuses it, or the client by an option that the user has set."""
    if client_limit is not None:
        options = replace(stage.kafka, options=(("message.max.bytes", client_limit),))
        stage = replace(stage, kafka=options)
    taken = stage.take_over()
    huge = '{"x":"' + "y" * 3_000_000 + '"}'
    events = [
        msgspec.structs.replace(event, payload=huge) if event.position in (4, 9) else event
        for event in stage.events(range(1, 13))
    ]
    report = stage.task(taken, 1, 12).publish(0, iter([batch(events)]))
    assert (report.sent, report.dead_letters, report.refusal) == (10, 2, None)
    assert stage.found() == [number for number in range(1, 13) if number not in (4, 9)]
    letters = messages(stage.kafka, [f"dlq.{stage.topic}"])
    assert [_letter(one).position for one in letters] == [4, 9]
    assert letters[0].headers["stage"] == "publish"
    assert letters[0].headers["position"] == "4"
    assert letters[0].headers["topic"] == stage.topic
    assert "too large" in letters[0].headers["error"].lower()
    assert _letter(letters[0]).size_bytes > 3_000_000
    assert letters[0].key == b"a1"
    assert stage.send(taken, 13, 14).sent == 2


def _letter(message: KafkaMessage) -> UnsentEvent:
    return msgspec.json.decode(message.value, type=UnsentEvent)


def test_a_topic_that_only_takes_small_batches_gets_every_event(stage: Stage) -> None:
    """Each event fits, and together they do not: no event is at fault."""
    stage.lanes.cluster.create_topic(stage.topic, partitions=1, config={"max.message.bytes": "20000"})
    taken = stage.take_over()
    payload = '{"x":"' + "y" * 9_000 + '"}'
    events = [msgspec.structs.replace(event, payload=payload) for event in stage.events(range(1, 13))]
    report = stage.task(taken, 1, 12, transaction_events=100, flush_events=100).publish(
        0, iter([batch(events)])
    )
    assert (report.sent, report.dead_letters, report.refusal) == (12, 0, None)
    assert stage.found() == list(range(1, 13))


def test_rows_of_another_lane_are_not_sent(stage: Stage) -> None:
    taken = stage.take_over()
    with pytest.raises(AssertionError, match="rows of another lane"):
        stage.task(taken, 1, 4).publish(0, iter([batch(stage.events(range(1, 5)), lane=1)]))


def test_an_open_transaction_of_another_log_hides_no_position(kafka: KafkaOptions) -> None:
    """Both logs have their lane 0 in one partition. The newest position is behind the other's open one."""
    one, other = Stage(kafka), Stage(kafka)
    taken = one.take_over()
    opening = one.send(taken, 1, 1).opening
    blocking = OpenLane(other.lanes, 0, other.take_over().run)
    blocking.producer.begin()
    blocking.producer.send("driftq.positions", None, "blocking", partition=0)
    blocking.producer.flush()
    one.send(taken, 1, 5, openings={0: str(opening)})
    visible = positions_of(one.lanes.look(0).records)
    assert visible is None or visible.position <= 1, "the open transaction hides it from readers"
    one.lanes._reader._patience_s = 1
    with pytest.raises(KafkaUnavailable, match="a transaction stays open"):
        OpenLane(one.lanes, 0, taken.run)
    blocking.producer.abort()
    assert one.send(taken, 1, 8).sent == 3
    assert one.found() == list(range(1, 9))


def test_a_positions_topic_that_forgets_is_refused(kafka: KafkaOptions) -> None:
    """Not the shared one: a topic with another policy under the name that is looked at."""
    from driftq.errors import KafkaRefused
    from driftq.publishing.kafka import take_over

    name = f"positions-{uuid.uuid4().hex}"
    with KafkaCluster(kafka) as cluster, pytest.MonkeyPatch.context() as patched:
        patched.setattr(take_over, "POSITIONS_TOPIC", name)
        cluster.create_topic(name, partitions=4, config={"cleanup.policy": "delete"})
        with pytest.raises(KafkaRefused, match=r"its cleanup\.policy is delete, and it must be compact"):
            prepare_positions(cluster, lanes=4)
        with pytest.raises(KafkaRefused, match="it has 4 partitions, and 8 lanes need one each"):
            prepare_positions(cluster, lanes=8)


def test_a_message_of_no_event_is_left_alone(stage: Stage) -> None:
    """What is not in an event's headers cannot be made into a letter: the writer says so."""
    taken = stage.take_over()
    target = writers.LaneTarget(
        options=stage.kafka,
        log=stage.log,
        lane=0,
        run=taken.run,
        opening=None,
        flush_events=10,
        patience_s=PATIENCE_S,
    )
    writer = writers.LaneWriter(target, topic_ids={})
    writer.commit([OutgoingEvent(1, stage.topic, "k", b"{}", [])], upto=1)
    assert (writer.sent, writer.positions.position) == (1, 1)
    with pytest.raises(LaneRefused):
        writer.require_no_gap(3)
