"""The start of a run on Kafka: every lane becomes this run's before anything is sent.

Kafka's own fencing lets the last opener win, old or new. So the new run's stamp is committed to every lane
first, and from then on a task of an older run refuses itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from driftq.errors import KafkaAccessDenied, KafkaProducerLost, KafkaRefused, KafkaUnavailable
from driftq.kafka.cluster import KafkaCluster
from driftq.publishing.kafka.lane import LaneLog, write_positions
from driftq.publishing.kafka.positions import (
    HOMES,
    POSITIONS_TOPIC,
    LanePositions,
    RunStamp,
    positions_of,
    taken_over,
)

_CONFIG = {"cleanup.policy": "compact", "segment.bytes": str(64 << 20), "segment.ms": str(6 * 3_600_000)}
"""A start reads the topic, and only closed segments are compacted."""
_ATTEMPTS = 20


@dataclass(frozen=True, slots=True)
class TakenLanes:
    """All lanes of a log, as a run found them."""

    run: RunStamp
    positions: Mapping[int, LanePositions]
    topic_ids: Mapping[str, str]
    """Of the topics that the lanes have sent to, as far as they exist."""

    @property
    def lowest(self) -> int:
        """Everything up to here is on every topic."""
        return min(lane.lowest for lane in self.positions.values())

    @property
    def highest(self) -> int:
        return max(lane.position for lane in self.positions.values())

    @property
    def behind(self) -> list[str]:
        """The topics that get their events again."""
        return sorted({topic for lane in self.positions.values() for topic in lane.behind})


def prepare_positions(cluster: KafkaCluster, *, lanes: int) -> None:
    """Create the topic of positions, or raise KafkaRefused when the existing one cannot be used."""
    if cluster.create_topic(POSITIONS_TOPIC, partitions=lanes, config=_CONFIG):
        return
    found = cluster.partitions(POSITIONS_TOPIC)
    if found < lanes:
        raise _unusable(cluster, f"it has {found} partitions, and {lanes} lanes need one each")
    try:
        policy = cluster.topic_settings(POSITIONS_TOPIC).get("cleanup.policy")
    except KafkaAccessDenied:
        return  # Not ours to ask; then it is the administrator's to know.
    if policy is not None and policy != "compact":
        raise _unusable(cluster, f"its cleanup.policy is {policy}, and it must be compact")


def _unusable(cluster: KafkaCluster, problem: str) -> KafkaRefused:
    return KafkaRefused(cluster.bootstrap, cause=f"the topic {POSITIONS_TOPIC} cannot be used: {problem}")


def newest_epoch(lanes: LaneLog, numbers: Iterable[int]) -> tuple[int, int | None]:
    """The newest epoch that any lane shows, and the number of lanes of the log, if it has been published."""
    found = [positions_of(lanes.look(number).records) for number in numbers]
    known = [one for one in found if one is not None]
    epoch = max((one.run.epoch for one in known), default=0)
    return epoch, known[0].lanes if known else None


def take_lanes(lanes: LaneLog, run: RunStamp, *, count: int) -> TakenLanes:
    """Make every lane this run's. Raises LaneRefused when a newer run was faster."""
    positions: dict[int, LanePositions] = {}
    topic_ids: dict[str, str] = {}
    if count > HOMES:  # Lanes share partitions: what a killed run left open there would hide the others.
        for lane in range(count):
            lanes.open_producer(lane).close()
    for lane in range(count):
        positions[lane] = _take(lanes, lane, run, count=count, topic_ids=topic_ids)
    return TakenLanes(run, positions, topic_ids)


def _take(
    lanes: LaneLog, lane: int, run: RunStamp, *, count: int, topic_ids: dict[str, str]
) -> LanePositions:
    for _ in range(_ATTEMPTS):
        look = lanes.look(lane)
        producer = lanes.open_producer(lane)
        try:
            found = lanes.settled(lane, look)
            topics = [] if found is None else [name for name in found.topics if name not in topic_ids]
            topic_ids |= lanes.cluster.topic_ids(topics)
            after = taken_over(found, run, lane=lane, lanes=count, ids=topic_ids)
            producer.begin()
            write_positions(producer, lanes.log, lane, before=found, after=after)
            producer.commit()
            return after
        except KafkaProducerLost:
            continue  # A task of the run before opened the lane: what it committed is read again.
        finally:
            producer.close()
    raise KafkaUnavailable(lanes.cluster.bootstrap, cause=f"lane {lane} could not be taken over")
