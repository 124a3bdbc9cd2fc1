"""A run of the publisher to Kafka: it takes over, checks each batch, and confirms it.

Every batch carries its range of the log. The run refuses one that does not begin where the last one ended,
or that does not hold every event of its range, before anything of it is sent; each lane refuses a batch that
begins after the lane's own next position. So nothing is taken for sent that never came.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeVar
from uuid import uuid4

import msgspec

from driftq.errors import BatchOutOfOrder, PositionsAhead, PublisherReplaced, TopicBehind
from driftq.eventstore.identity import event_log_identity
from driftq.eventstore.objects import BucketObjects
from driftq.eventstore.published import published_row
from driftq.eventstore.stored import StoredEvent
from driftq.kafka.cluster import KafkaCluster
from driftq.model.options.pipeline import PipelineOptions, PublisherSettings
from driftq.model.wire.events import LogEndReply
from driftq.publishing.checkpoint import Checkpoint, CheckpointStore
from driftq.publishing.kafka.lane import LaneLog
from driftq.publishing.kafka.positions import LaneRefused, RunStamp
from driftq.publishing.kafka.sends import LaneReport, LaneSends, RowBatch
from driftq.publishing.kafka.take_over import TakenLanes, newest_epoch, prepare_positions, take_lanes
from driftq.publishing.kafka.writer import LaneTargets
from driftq.publishing.lanes import lane_of
from driftq.publishing.resume import Resume, decide_resume, now_ms
from driftq.publishing.run import PublisherRun
from driftq.transport.server import Server

logger = logging.getLogger("driftq.publisher")

_ATTEMPTS = 3
RunOnKafka = TypeVar("RunOnKafka", bound="KafkaRun")


class KafkaRun(PublisherRun):
    """A run that publishes to Kafka."""

    def __init__(
        self,
        options: PipelineOptions,
        store: CheckpointStore,
        resume: Resume,
        lanes: LaneLog,
        taken: TakenLanes,
        *,
        remembered: Iterable[tuple[int, str]] = (),
    ) -> None:
        super().__init__(options, store, resume, remembered=remembered)
        self._lanes = lanes
        self._stamp = taken.run
        self._topic_ids = dict(taken.topic_ids)
        self._openings: dict[int, str] = {}
        self._next = resume.after + 1

    def publish_events(self, events: Sequence[StoredEvent]) -> None:
        """The next events of the log, in this process, lane by lane."""
        first, last = events[0].position, events[-1].position
        self.require_next(first, last, count=len(events))
        self.require_topics()
        by_lane: dict[int, list[StoredEvent]] = {lane: [] for lane in range(self.checkpoint.lanes)}
        for event in events:
            by_lane[lane_of(event.aggregate_id, self.checkpoint.lanes)].append(event)
        sends = self.lane_sends(first, last)
        self.note_lanes(first, last, [sends.send(lane, [_rows(found)]) for lane, found in by_lane.items()])

    def lane_sends(self, first: int, last: int) -> LaneSends:
        """How the next batch is sent."""
        settings = self._options.publisher
        return LaneSends(
            lanes=LaneTargets(
                options=self._options.kafka,
                log=self._lanes.log,
                run=self._stamp,
                openings=self._openings,
                flush_events=settings.flush_events,
                patience_s=settings.flush_timeout_seconds,
            ),
            first=first,
            last=last,
            topic_ids=self._topic_ids,
            transaction_events=settings.transaction_events,
            recent_max=settings.dedup_events_max,
        )

    def require_next(self, first: int, last: int, *, count: int) -> None:
        """Raises BatchOutOfOrder unless the batch is the log's next events, all of them."""
        if first != self._next or count != last - first + 1:
            raise BatchOutOfOrder(expected=self._next, first=first, last=last, count=count)

    def note_lanes(self, first: int, last: int, reports: list[LaneReport]) -> None:
        """Every lane is at `last`. Raises when a lane was refused."""
        self.require_accepted(report.refusal for report in reports)
        count = sum(report.events for report in reports)
        lanes = sorted(report.lane for report in reports)
        if count != last - first + 1 or lanes != list(range(self.checkpoint.lanes)):
            raise BatchOutOfOrder(expected=first, first=first, last=last, count=count)
        for report in reports:
            self._learn(report.topics)
            if report.opening is not None:
                self._openings[report.lane] = report.opening
        sent, letters = sum(report.sent for report in reports), sum(report.dead_letters for report in reports)
        self.appended += sent
        self.dead_letters += letters
        self.skipped += count - sent - letters
        self._next = last + 1
        self.note(
            max(self.checkpoint.position, last),
            topics=[{topic: {report.lane: last} for topic in report.topics} for report in reports],
            recent=[one for report in reports for one in report.recent],
        )

    def close(self) -> None:
        self._lanes.close()

    def require_topics(self) -> None:
        """Raises TopicBehind when a topic was deleted or created again since the run began."""
        self._compare(self._lanes.cluster.topic_ids(self._topic_ids))

    def _learn(self, topics: Mapping[str, str]) -> None:
        for topic, topic_id in topics.items():
            if self._topic_ids.setdefault(topic, topic_id) != topic_id:
                raise TopicBehind(f"topic {topic} was deleted and created again")

    def _compare(self, ids: Mapping[str, str]) -> None:
        changed = [topic for topic, known in self._topic_ids.items() if ids.get(topic) != known]
        if changed:
            raise TopicBehind(f"topic {changed[0]} was deleted")


def begin_on_kafka(
    options: PipelineOptions,
    objects: BucketObjects,
    *,
    remembered: Iterable[tuple[int, str]],
    make: Callable[..., RunOnKafka],
) -> RunOnKafka:
    """Take over: from here on every older run of this log refuses itself, on Kafka and at the checkpoint."""
    settings = options.publisher
    lanes = LaneLog(options.kafka, event_log_identity(objects), patience_s=settings.flush_timeout_seconds)
    try:
        store = CheckpointStore(objects, folder=f"publisher-kafka/{lanes.cluster.cluster_id()}")
        found = store.load()
        checkpoint, taken = _take_over(lanes, store, found or Checkpoint(publisher=lanes.log))
        _require_log(options, taken)
        if taken.behind:
            logger.info("publisher: these topics get their events again: %s", ", ".join(taken.behind))
        resume = resume_on_kafka(checkpoint, taken.lowest, settings, is_new=found is None)
        store.save(resume.checkpoint)
    except BaseException:
        lanes.close()
        raise
    return make(options, store, resume, lanes, taken, remembered=remembered)


def _take_over(
    lanes: LaneLog, store: CheckpointStore, checkpoint: Checkpoint
) -> tuple[Checkpoint, TakenLanes]:
    """The checkpoint of the new run, and all lanes as its own. Raises PublisherReplaced."""
    prepare_positions(lanes.cluster, lanes=checkpoint.lanes)
    newest, count = newest_epoch(lanes, range(checkpoint.lanes))
    for _ in range(_ATTEMPTS):
        epoch = max(newest, checkpoint.epoch) + 1
        checkpoint = msgspec.structs.replace(checkpoint, epoch=epoch, lanes=count or checkpoint.lanes)
        store.save(checkpoint)
        try:
            taken = take_lanes(lanes, RunStamp(epoch, uuid4().hex), count=checkpoint.lanes)
        except LaneRefused as refused:
            # Of two publishers only one gets past the checkpoint. If it is this one, the epoch was too low:
            # the checkpoint was lost, and the newest stamp was hidden behind an open transaction.
            newest = max(newest, refused.epoch or 0)
        else:
            return checkpoint, taken
    raise PublisherReplaced(checkpoint.publisher, epoch=checkpoint.epoch)


def resume_on_kafka(
    checkpoint: Checkpoint, lowest: int, settings: PublisherSettings, *, is_new: bool
) -> Resume:
    """Read from the smaller of both positions, and a little before it; a new checkpoint has no position."""
    if is_new:
        checkpoint = msgspec.structs.replace(checkpoint, position=lowest)
    if lowest < checkpoint.position:
        lost = msgspec.structs.replace(checkpoint, position=lowest, recent=[], marks=[])
        return Resume(lost, lowest)
    found = decide_resume(checkpoint, checkpoint.topics, settings, now_ms=now_ms())
    return Resume(found.checkpoint, found.after)


def _require_log(options: PipelineOptions, taken: TakenLanes) -> None:
    """Raises PositionsAhead for a log that ends before what was published of it: it is an older copy."""
    server = Server(options.url, credentials=options.credentials)
    try:
        end = server.get("/v1/events/log/end", LogEndReply).position
    finally:
        server.close()
    if taken.highest > end:
        raise PositionsAhead(published=taken.highest, end=end)


def _rows(events: Sequence[StoredEvent]) -> RowBatch:
    return RowBatch(map(published_row, events), [(event.position, event.event_id) for event in events])


def check_kafka(options: PipelineOptions) -> None:
    """Raise the error that would keep the publisher from starting."""
    with KafkaCluster(options.kafka, answer_s=10) as cluster:
        cluster.cluster_id()
