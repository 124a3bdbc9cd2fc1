"""The newest report of each job of the pipeline, in memory and in a small file that survives a restart.

A driver reports after each batch, at most once a second, and repeats its last report while nothing happens.
The file is written about a second after a report: a crash loses the reports of that second, and the next
reports of the drivers replace them. Reports are for display. No job depends on them.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Iterable
from contextlib import suppress
from itertools import islice

import msgspec

from driftq.model.time import rfc3339
from driftq.model.wire.pipelines import PipelineReport, PipelinesReply, PipelineView
from driftq.server.ports import Clock

SILENT_MS = 30_000
"""A job that should run and has not reported for this long is silent."""
JOBS_MAX = 512
"""Above this, the report that is oldest makes room."""
_SAVE_S = 1.0
_ACTIVE = frozenset({"running", "waiting", "target_away"})

logger = logging.getLogger("driftq.pipelines")


class KeptReport(msgspec.Struct, frozen=True):
    """A report, and when it arrived."""

    report: PipelineReport
    at: int


_decoder = msgspec.json.Decoder(dict[str, KeptReport])


class PipelineReports:
    """The reports that one server has received."""

    def __init__(self, path: str | None, *, loop: asyncio.AbstractEventLoop, clock: Clock) -> None:
        self._path = path
        self._loop = loop
        self._clock = clock
        self._kept: dict[str, KeptReport] = _read(path)
        """By the name of the job; the one that reported last is last."""
        self._saving: asyncio.TimerHandle | None = None
        self._written: asyncio.Future[None] | None = None

    def note(self, name: str, report: PipelineReport) -> None:
        """Keep the report as the newest of this job."""
        self._kept.pop(name, None)
        self._kept[name] = KeptReport(report, self._clock.now())
        if len(self._kept) > JOBS_MAX:
            del self._kept[next(iter(self._kept))]
        if self._path is not None and self._saving is None:
            self._saving = self._loop.call_later(_SAVE_S, self._save)

    def page(self, *, limit: int, after: str | None) -> PipelinesReply:
        """Jobs by name, after this one."""
        names = (name for name in sorted(self._kept) if after is None or name > after)
        found = [self._view(name, self._kept[name]) for name in islice(names, limit + 1)]
        return PipelinesReply(found[:limit], found[limit - 1].name if len(found) > limit else None)

    def views(self) -> Iterable[PipelineView]:
        """Every job, by name."""
        return [self._view(name, self._kept[name]) for name in sorted(self._kept)]

    def _view(self, name: str, kept: KeptReport) -> PipelineView:
        report = kept.report
        silent = report.state in _ACTIVE and self._clock.now() - kept.at > SILENT_MS
        fields = msgspec.structs.asdict(report) | {"state": "silent" if silent else report.state}
        reported_state = report.state if silent else None
        return PipelineView(name=name, reported_at=rfc3339(kept.at), reported_state=reported_state, **fields)

    def close(self) -> None:
        """Write what is not in the file yet."""
        if self._saving is not None and self._path is not None:
            self._saving.cancel()
            _write(self._path, msgspec.json.encode(self._kept))

    def _save(self) -> None:
        if self._written is not None and not self._written.done():
            self._saving = self._loop.call_later(_SAVE_S, self._save)  # A slow disk: not two writers at once.
            return
        self._saving = None
        assert self._path is not None
        content = msgspec.json.encode(self._kept)
        self._written = self._loop.run_in_executor(None, _write, self._path, content)


def _read(path: str | None) -> dict[str, KeptReport]:
    """What was kept; nothing where there is no file, or one that is not ours."""
    if path is None:
        return {}
    try:
        with open(path, "rb") as file:
            return _decoder.decode(file.read())
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as problem:
        logger.warning("the reports of pipelines in %s cannot be read: %s", path, problem)
        return {}


def _write(path: str, content: bytes) -> None:
    made = f"{path}.new"
    try:
        with open(made, "wb") as file:
            file.write(content)
        os.replace(made, path)
    except OSError as problem:
        logger.warning("the reports of pipelines cannot be written to %s: %s", path, problem)
        with suppress(OSError):
            os.unlink(made)
