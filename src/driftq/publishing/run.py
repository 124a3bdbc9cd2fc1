"""A run of the publisher, from its start to its end: it publishes and confirms one batch after the other."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from driftq.errors import PublisherReplaced, TopicBehind
from driftq.eventstore.stored import StoredEvent
from driftq.model.options.pipeline import PipelineOptions
from driftq.publishing.checkpoint import Checkpoint, CheckpointStore
from driftq.publishing.lanes import LaneAppends, PublishReport, Refusal, lane_of
from driftq.publishing.resume import Resume

_MARKS_MAX = 100


class PublisherRun:
    """To DriftQ topics; a subclass publishes elsewhere. For one thread."""

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
        self.dead_letters = 0
        self.batches = 0
        self._saved_at = time.monotonic()
        self._unsaved = False

    @property
    def after(self) -> int:
        """The log is read after this position."""
        return self._resume.after

    @property
    def looks_back(self) -> bool:
        """Nothing new is confirmed yet: what follows may have been sent by the run before."""
        return self.checkpoint.position == self._resume.checkpoint.position

    @property
    def save_due_s(self) -> float | None:
        """How long ago the checkpoint should have moved; None when it is up to date."""
        return time.monotonic() - self._saved_at if self._unsaved else None

    def publish_events(self, events: Sequence[StoredEvent]) -> None:
        """The next events of the log, in this process. The checkpoint is left to `store_checkpoint`."""
        lanes = self.checkpoint.lanes
        divided = ((lane_of(event.aggregate_id, lanes), event) for event in events)
        self.note_reports([self.appends().append(divided)])

    def close(self) -> None:
        """Drop what the run holds; another run follows, or none."""

    def appends(self) -> LaneAppends:
        """How the next batch is sent."""
        settings = self._options.publisher
        return LaneAppends(
            url=self._options.url,
            credentials=self._options.credentials,
            writer=self.checkpoint.publisher,
            epoch=self.checkpoint.epoch,
            confirmed=self.checkpoint.topics,
            sent_ids=self._resume.sent_ids if self.looks_back else frozenset(),
            chunk_events=min(settings.batch_events, settings.flush_events),
            patience_s=settings.flush_timeout_seconds,
            recent_max=settings.dedup_events_max,
        )

    def note_reports(self, reports: Sequence[PublishReport]) -> None:
        """All parts of a batch are done. Raises when one was refused."""
        self.require_accepted(report.refusal for report in reports)
        position = max([self.checkpoint.position, *[report.position for report in reports]])
        self.appended += sum(report.appended for report in reports)
        self.skipped += sum(report.skipped for report in reports)
        self.note(
            position,
            topics=[report.topics for report in reports],
            recent=[one for report in reports for one in report.recent],
        )

    def require_accepted(self, refusals: Iterable[Refusal | None]) -> None:
        """Raises PublisherReplaced or TopicBehind for a part that was refused."""
        for refusal in refusals:
            if refusal is not None and refusal.replaced:
                raise PublisherReplaced(self.checkpoint.publisher, epoch=self.checkpoint.epoch)
            if refusal is not None:
                raise TopicBehind(refusal.text)

    def note(
        self,
        position: int,
        *,
        topics: Iterable[Mapping[str, Mapping[int, int]]],
        recent: Iterable[tuple[int, str]],
    ) -> None:
        """Everything up to `position` is confirmed, on these topics and lanes up to their positions."""
        settings = self._options.publisher
        self.recent.extend(sorted(recent))
        self.batches += 1
        known = {topic: dict(lanes) for topic, lanes in self.checkpoint.topics.items()}
        for moved in topics:
            for topic, lanes in moved.items():
                known.setdefault(topic, {}).update(lanes)
        now_ms = time.time_ns() // 1_000_000
        since_ms = now_ms - settings.lookback_seconds * 1_000
        marks = [mark for mark in self.checkpoint.marks if mark[0] >= since_ms]
        kept = settings.dedup_checkpoint_events_max
        self.checkpoint = msgspec.structs.replace(
            self.checkpoint,
            position=position,
            topics=known,
            recent=list(self.recent)[-kept:] if kept else [],
            marks=[*marks[-_MARKS_MAX:], (now_ms, self.checkpoint.position)],
        )
        if not self._unsaved:
            self._unsaved, self._saved_at = True, time.monotonic()

    def store_checkpoint(self) -> None:
        """Store what is confirmed; raises PublisherReplaced when another publisher has moved on."""
        if self._unsaved:
            self._store.save(self.checkpoint)
            self._unsaved = False
