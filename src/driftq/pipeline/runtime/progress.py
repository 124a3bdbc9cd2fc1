"""Listens to the progress of Spark's queries, and stores it where any process can read it."""

from __future__ import annotations

import datetime as dt
import json
import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from driftq.pipeline.runtime.metrics import as_text
from driftq.pipeline.runtime.processes import mark_of
from driftq.pipeline.runtime.reports import NoticeReport, ProgressReport, Reporter
from driftq.pipeline.runtime.status import JobStatus, PipelineJobState, StatusFolder
from driftq.pipeline.source.lag import LAG, READ

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery


class ProgressTracker:
    """The status of each job of this driver. Spark's listener and the runner call it from two threads."""

    def __init__(
        self,
        folder: StatusFolder,
        reporter: Reporter,
        *,
        checkpoint: Any,
        post: Callable[[JobStatus], None] | None = None,
    ) -> None:
        """`post` gets each change, for the server; it must not block."""
        self._folder = folder
        self._post = post
        self._reporter = reporter
        self._checkpoint = checkpoint
        self._lock = threading.Lock()
        self._jobs: dict[str, JobStatus] = {}
        self._batches: dict[str, int] = {}
        self._counts: dict[str, Mapping[str, int]] = {}
        self._before: dict[str, JobStatus] = {}
        """As earlier drivers left each job."""

    def expect(self, job: str) -> None:
        """A job is about to start; the counts of earlier runs carry over."""
        with self._lock:
            known = self._jobs.get(job) or self._folder.read(job)
            restarts = known.restarts + 1 if known is not None and job in self._jobs else 0
            known = known or JobStatus(job=job, state=PipelineJobState.RUNNING)
            self._before.setdefault(job, known)
            started_at = known.started_at if restarts else _text(dt.datetime.now(dt.UTC))
            self._keep(
                known,
                state=PipelineJobState.RUNNING,
                error=None,
                away=known.away if restarts else None,
                restarts=restarts,
                started_at=started_at,
            )

    def began(
        self,
        job: str,
        query_id: str,
        counts: Mapping[str, int] | None = None,
        sinks: Sequence[str] = (),
    ) -> None:
        """The query's checkpoint is known now: under a new one batches are counted from 0 again.

        `counts` are the job's own, since this driver has it: its dead letters and outages are shown.
        """
        with self._lock:
            self._counts[job] = {} if counts is None else counts
            known = msgspec.structs.replace(self._jobs[job], sinks=tuple(sinks))
            if known.query_id != query_id:
                where = self._checkpoint(job)
                self._keep(known, query_id=query_id, last_batch=None, batch_rows=0, checkpoint=where)

    def heard(self, progress: dict[str, Any]) -> None:
        """One progress report of Spark. It may arrive twice, and the last one may arrive late."""
        job = progress.get("name")
        with self._lock:
            known = self._jobs.get(job) if job is not None else None
            if known is None:
                return  # A query that a user's own code started.
            batch, rows = int(progress["batchId"]), messages_of(progress)
            finished = _is_batch(progress)
            if finished and known.last_batch is not None and batch <= known.last_batch:
                return  # An earlier batch again: what comes after it was counted too.
            counts = rows if finished else 0
            if finished:
                self._batches[known.job] = self._batches.get(known.job, 0) + 1
            else:
                batch = known.last_batch if known.last_batch is not None else batch - 1
            if finished and known.away is not None:
                self._say_back(known.job)
            self._keep(
                known,
                last_batch=None if batch < 0 else batch,
                batch_rows=rows if finished else known.batch_rows,
                batch_ms=int(progress["durationMs"]["addBatch"]) if finished else known.batch_ms,
                away=None if finished else known.away,
                rows=known.rows + counts,
                rows_per_second=round(_speed(progress, rows), 1),
                lag=lag_of(progress),
            )

    def target(self, job: str, problem: str | None) -> None:
        """A target of the job is away, for this reason, or is back. Each change is reported once."""
        with self._lock:
            known = self._jobs.get(job)
            if known is None or (known.away is None) == (problem is None):
                return
            if problem is None:
                self._say_back(job)
            else:
                problem = self._reporter.clean(problem)
                self._reporter.say(NoticeReport(job, f"a target is away, waiting for it: {problem}"))
            self._keep(known, away=problem)

    def _say_back(self, job: str) -> None:
        self._reporter.say(NoticeReport(job, "the target is back"))

    def settle(self, query: StreamingQuery, state: PipelineJobState, *, error: str | None = None) -> None:
        """A query has ended: add the progress that the listener has not seen yet, and record the end."""
        for progress in query.recentProgress:
            self.heard(json.loads(progress.json))
        with self._lock:
            if query.name in self._jobs:
                known = self._jobs[query.name]
                self._keep(known, state=state, error=error, away=known.away if error is not None else None)

    def failed(self, job: str, error: str, *, restarting: bool) -> None:
        with self._lock:
            self._keep(
                self._jobs[job],
                state=PipelineJobState.WAITING if restarting else PipelineJobState.FAILED,
                error=error,
            )

    def batch_done(self, job: str) -> None:
        """A task has finished."""
        with self._lock:
            self._keep(self._jobs[job], state=PipelineJobState.ENDED)

    def batches(self, job: str) -> int:
        """The number of batches that finished under this driver."""
        with self._lock:
            return self._batches.get(job, 0)

    def _keep(self, status: JobStatus, **changes: Any) -> None:
        mine: dict[str, Any] = {"driver": os.getpid(), "driver_mark": mark_of(os.getpid())}
        mine |= {"not_running_since": None}
        if (counts := self._counts.get(status.job)) is not None:
            before = self._before[status.job]
            mine["dead_letters"] = before.dead_letters + counts.get("dead", 0)
            mine["outages"] = before.outages + counts.get("outages", 0)
        changed = msgspec.structs.replace(status, **mine, **changes).at(dt.datetime.now(dt.UTC))
        self._jobs[changed.job] = changed
        self._folder.write(changed)
        self._folder.write_text(f"{changed.job}.prom", as_text([changed]))
        self._reporter.say(ProgressReport(changed))
        if self._post is not None:
            self._post(changed)


def _text(instant: dt.datetime) -> str:
    return f"{instant:%Y-%m-%dT%H:%M:%S.%f}Z"


def lag_of(progress: dict[str, Any]) -> int | None:
    """The messages after the batch, over all sources that report it; None when none does."""
    known = [*_said(progress, LAG), *_kafka_lags(progress)]
    return sum(known) if known else None


def messages_of(progress: dict[str, Any]) -> int:
    """The messages of the batch.

    A source that drops superseded ones reports how many it read, and so does one whose rows the job may
    leave unread, because it has the messages from elsewhere.
    """
    rows = int(progress["numInputRows"])
    return max(rows, sum(_said(progress, READ))) if rows or _is_batch(progress) else 0


def _is_batch(progress: dict[str, Any]) -> bool:
    """Whether a batch was handled; otherwise there was nothing to do."""
    return "addBatch" in progress.get("durationMs", {})


def _speed(progress: dict[str, Any], messages: int) -> float:
    rows = int(progress["numInputRows"])
    if rows or not _is_batch(progress):
        return float(progress.get("processedRowsPerSecond") or 0.0) * (messages / rows if rows else 1.0)
    return messages * 1_000 / max(1, int(progress["durationMs"]["addBatch"]))


def _said(progress: dict[str, Any], name: str) -> Iterator[int]:
    for source in progress.get("sources", ()):
        latest = source.get("latestOffset")
        if isinstance(latest, dict) and name in latest:
            yield latest[name]


def _kafka_lags(progress: dict[str, Any]) -> Iterator[int]:
    """Of Kafka's source: differences of offsets, which count the markers of transactions too."""
    for source in progress.get("sources", ()):
        latest, end = source.get("latestOffset"), source.get("endOffset")
        if str(source.get("description", "")).startswith("KafkaV2") and latest and end:
            yield sum(
                max(0, offset - end.get(topic, {}).get(partition, 0))
                for topic, partitions in latest.items()
                for partition, offset in partitions.items()
            )


def listen(spark: Any, progress: ProgressTracker) -> None:
    """Listen to every query of this session."""
    from pyspark.sql.streaming.listener import StreamingQueryListener

    class SparkListener(StreamingQueryListener):
        def onQueryStarted(self, event: Any) -> None: ...

        def onQueryProgress(self, event: Any) -> None:
            progress.heard(json.loads(event.progress.json))

        def onQueryIdle(self, event: Any) -> None:
            """Spark names the query alone; the query has the progress, with its lag and no rows."""
            query = spark.streams.get(str(event.id))
            last = None if query is None else query.lastProgress
            if last is not None:
                progress.heard(json.loads(last.json))

        def onQueryTerminated(self, event: Any) -> None: ...

    spark.streams.addListener(SparkListener())
