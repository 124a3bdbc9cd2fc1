"""One run of a publisher: its confirmed batches, and the checkpoint that follows them."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterable, Sequence

import msgspec

from driftq.errors import PublisherReplaced, TopicBehind
from driftq.model.options.pipeline import PipelineOptions
from driftq.pipeline.publisher.checkpoint import Checkpoint, CheckpointStore
from driftq.pipeline.publisher.lane_task import LaneTask, Report
from driftq.pipeline.publisher.resume import Resume

_MARKS_MAX = 100

_decode = msgspec.json.Decoder(Report).decode


class PublisherRun:
    """From one start to its end. Confirms batches one after the other, on the query's own thread."""

    def __init__(
        self,
        options: PipelineOptions,
        store: CheckpointStore,
        resume: Resume,
        *,
        remembered: Iterable[tuple[int, str]] = (),
    ) -> None:
        self._options = options
        self._store = store
        self._resume = resume
        self.checkpoint: Checkpoint = resume.checkpoint
        known = [*remembered, *resume.checkpoint.recent]
        self.recent: deque[tuple[int, str]] = deque(known, options.publisher.dedup_events_max)
        self.appended = 0
        self.skipped = 0
        self.batches = 0

    def task(self) -> LaneTask:
        """The task of the next batch."""
        settings = self._options.publisher
        looks_back = self.checkpoint.position == self._resume.checkpoint.position
        return LaneTask(
            url=self._options.url,
            writer=self.checkpoint.publisher,
            epoch=self.checkpoint.epoch,
            confirmed=self.checkpoint.topics,
            sent_ids=self._resume.sent_ids if looks_back else frozenset(),
            chunk_events=min(settings.batch_events, settings.flush_events),
            patience_s=settings.flush_timeout_seconds,
            recent_max=settings.dedup_events_max,
        )

    def confirm(self, reports: Sequence[str]) -> None:
        """All tasks of a batch are done: move the checkpoint over it. Raises when one was refused."""
        decoded = [_decode(report) for report in reports]
        for report in decoded:
            if report.refusal is not None and report.refusal.replaced:
                raise PublisherReplaced(self.checkpoint.publisher, epoch=self.checkpoint.epoch)
            if report.refusal is not None:
                raise TopicBehind(report.refusal.text)
        position = max([self.checkpoint.position, *[report.position for report in decoded]])
        self.recent.extend(sorted(one for report in decoded for one in report.recent))
        self.appended += sum(report.appended for report in decoded)
        self.skipped += sum(report.skipped for report in decoded)
        self.batches += 1
        self._save(position, decoded)

    def _save(self, position: int, decoded: Sequence[Report]) -> None:
        settings = self._options.publisher
        topics = {topic: dict(lanes) for topic, lanes in self.checkpoint.topics.items()}
        for report in decoded:
            for topic, lanes in report.topics.items():
                topics.setdefault(topic, {}).update(lanes)
        now_ms = time.time_ns() // 1_000_000
        since_ms = now_ms - settings.lookback_seconds * 1_000
        marks = [mark for mark in self.checkpoint.marks if mark[0] >= since_ms]
        kept = settings.dedup_checkpoint_events_max
        self.checkpoint = msgspec.structs.replace(
            self.checkpoint,
            position=position,
            topics=topics,
            recent=list(self.recent)[-kept:] if kept else [],
            marks=[*marks[-_MARKS_MAX:], (now_ms, self.checkpoint.position)],
        )
        self._store.save(self.checkpoint)
