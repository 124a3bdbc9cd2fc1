"""The progress of each job, in a small file beside its checkpoint, readable without Spark."""

from __future__ import annotations

import datetime as dt
import os
import tempfile
from contextlib import suppress
from enum import StrEnum
from pathlib import Path

import msgspec

from driftq.pipeline.runtime.processes import is_alive, mark_of


class PipelineJobState(StrEnum):
    """The state of a job, as last reported by its driver."""

    RUNNING = "running"
    WAITING = "waiting"
    """Its query failed and will restart."""
    ENDED = "ended"
    """It was stopped, or had nothing left to do."""
    FAILED = "failed"
    GONE = "gone"
    """Its driver died without a report."""


class JobStatus(msgspec.Struct, frozen=True, kw_only=True):
    """One job: its last batch, how much it has done, how much is left."""

    job: str
    state: PipelineJobState
    last_batch: int | None = None
    """Spark's number of the last batch that is finished."""
    batch_rows: int = 0
    rows: int = 0
    """Rows over all runs; repeated reads count again."""
    rows_per_second: float = 0.0
    lag: int | None = None
    """Rows that were available and not read when the last batch ended; None where the source cannot tell."""
    checkpoint: str | None = None
    query_id: str | None = None
    """Spark's name for everything that was read under one checkpoint."""
    restarts: int = 0
    dead_letters: int = 0
    """Events that were given up, over all runs; a repeated batch counts again."""
    outages: int = 0
    """How often a target was away and was waited for, over all runs."""
    error: str | None = None
    away: str | None = None
    """Why the job waits for a target that is unavailable; None while all of them are there."""
    batch_ms: int | None = None
    """How long the last batch took."""
    started_at: str | None = None
    """When its driver started it."""
    sinks: tuple[str, ...] = ()
    """The addresses of its targets, without passwords."""
    driver: int | None = None
    """The process that wrote this."""
    driver_mark: int | None = None
    """The process's start time by the kernel's count: another process may get its number later."""
    updated_at: str = ""
    not_running_since: str | None = None
    """Set by the reader: its end, or the last sign of life of a driver that died."""

    @property
    def driver_is_alive(self) -> bool:
        """Whether the process that wrote this still runs."""
        if self.driver is None or not is_alive(self.driver):
            return False
        return self.driver_mark is None or mark_of(self.driver) == self.driver_mark

    @property
    def kind(self) -> str:
        """The built-in job that it is: publisher, worker, projection, rebuild, compact or bridge."""
        return self.job.partition("-")[0]

    @property
    def is_away(self) -> bool:
        """Whether it runs and waits for a target."""
        return self.state is PipelineJobState.RUNNING and self.away is not None

    def notes(self) -> list[str]:
        """Notes for display beside the numbers."""
        said = [self.error] if self.error else []
        if self.is_away:
            said.append(f"a target is away, waiting for it: {self.away}")
        if self.not_running_since is None:
            return said
        since = f"{self.not_running_since[:19]}Z"
        if self.state is PipelineJobState.GONE:
            died = f"not running: its driver (process {self.driver}) died; last heard of at {since}"
            return [died, *said]
        return [f"not running since {since}", *said]

    def at(self, now: dt.datetime) -> JobStatus:
        return msgspec.structs.replace(self, updated_at=f"{now:%Y-%m-%dT%H:%M:%S.%f}Z")


class StatusFolder:
    """`DIR/pipeline/status`: a file for each job, replaced as a whole."""

    def __init__(self, pipeline_folder: str) -> None:
        self.path = Path(pipeline_folder) / "status"

    def write(self, status: JobStatus) -> None:
        self._replace(f"{status.job}.json", msgspec.json.encode(status) + b"\n")

    def write_text(self, name: str, text: bytes) -> None:
        """Write another file here, such as metrics for a collector of text files."""
        self._replace(name, text)

    def read(self, job: str) -> JobStatus | None:
        """The status of a job; None when it never ran, or when its file is not one of ours."""
        try:
            return msgspec.json.decode((self.path / f"{job}.json").read_bytes(), type=JobStatus)
        except (FileNotFoundError, ValueError):
            return None

    def all(self) -> list[JobStatus]:
        """Every job that ever ran here, by name; detects drivers that died without a report."""
        found = (self.read(file.stem) for file in sorted(self.path.glob("*.json")))
        return [_checked(status) for status in found if status is not None]

    def _replace(self, name: str, content: bytes) -> None:
        self.path.mkdir(parents=True, exist_ok=True)
        handle, made = tempfile.mkstemp(dir=self.path, prefix=f".{name}.")
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(content)
            os.chmod(made, 0o644)  # A collector of metrics may run as another user.
            os.replace(made, self.path / name)
        except BaseException:
            with suppress(FileNotFoundError):
                os.unlink(made)
            raise


def _checked(status: JobStatus) -> JobStatus:
    """The current status: a dead driver cannot report its end, and its last numbers no longer hold."""
    state = status.state
    if (
        state in (PipelineJobState.RUNNING, PipelineJobState.WAITING)
        and status.driver
        and not status.driver_is_alive
    ):
        state = PipelineJobState.GONE
    if state is PipelineJobState.RUNNING:
        return status
    known = msgspec.structs.replace(
        status, state=state, rows_per_second=0.0, not_running_since=status.updated_at or None
    )
    if state is PipelineJobState.ENDED:
        return known  # It had read everything, or was stopped on purpose and reported its lag.
    return msgspec.structs.replace(known, lag=None)
