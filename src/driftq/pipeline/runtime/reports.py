"""What a driver is told at its start, and what it says while it works: JSON between two processes."""

from __future__ import annotations

import threading
from typing import BinaryIO
from urllib.parse import unquote, urlsplit

import msgspec

from driftq.model.options.pipeline import PipelineOptions
from driftq.pipeline.runtime.status import JobStatus

DRIVER = "driver"
"""Stands for the job in a report about the driver itself: then none of its jobs runs."""


class DriverSpec(msgspec.Struct, frozen=True, kw_only=True):
    """One run of the pipeline. It goes through a pipe: a password in it is on no command line."""

    what: tuple[str, ...]
    """Shipped jobs by name, or one file of a user."""
    options: PipelineOptions
    once: bool = False
    app: str | None = None
    """The file with handlers and projections."""
    name: str | None = None
    """Only this handler or projection."""
    master: str | None = None
    """Where Spark runs; this machine when nothing is said."""
    restarting: bool = False
    """An earlier driver of this run has died: what cannot start now may start later."""


class StartedReport(msgspec.Struct, frozen=True, tag=True):
    """A job's query runs."""

    job: str


class ProgressReport(msgspec.Struct, frozen=True, tag=True):
    """A batch is finished, or there was nothing to do for a while."""

    status: JobStatus


class NoticeReport(msgspec.Struct, frozen=True, tag=True):
    """A job says how far it is, in words."""

    job: str
    text: str


class FailureReport(msgspec.Struct, frozen=True, tag=True):
    """A query failed; it is started again after `retry_s`, or not at all."""

    job: str
    error: str
    retry_s: float | None


class EndReport(msgspec.Struct, frozen=True, tag=True):
    """A job has done what there was to do, or was asked to stop."""

    job: str


class RefusalReport(msgspec.Struct, frozen=True, tag=True):
    """This cannot work, and trying again would not help: a mistake in the app, Java missing, no server."""

    error: str


Report = StartedReport | ProgressReport | NoticeReport | FailureReport | EndReport | RefusalReport

_encode = msgspec.json.Encoder().encode
_decoder: msgspec.json.Decoder[Report] = msgspec.json.Decoder(Report)


class Reporter:
    """The driver's side. Whatever it says has no password in it."""

    def __init__(self, pipe: BinaryIO, options: PipelineOptions) -> None:
        self._pipe = pipe
        self._secrets = secrets_of(options)
        self._lock = threading.Lock()  # Spark's listener speaks from a thread of its own.

    def say(self, report: Report) -> None:
        line = _encode(report)
        with self._lock:
            try:
                self._pipe.write(line + b"\n")
                self._pipe.flush()
            except (BrokenPipeError, ValueError):
                pass  # Nobody listens any more: the lifeline ends this process.

    def clean(self, text: str) -> str:
        """The text without what nobody else should read."""
        for secret in self._secrets:
            text = text.replace(secret, "***")
        return text


def read_report(line: bytes) -> Report | None:
    """None for a line that was cut off by the end of its writer."""
    try:
        return _decoder.decode(line)
    except ValueError:
        return None


def secrets_of(options: PipelineOptions) -> tuple[str, ...]:
    """Passwords of the addresses that a run is given, as they are written and as they are meant."""
    found = set()
    for address in (options.events.database_url, options.events.objects_url, options.url):
        if address is not None and (password := urlsplit(address).password):
            found |= {password, unquote(password)}
    return tuple(sorted(found, key=len, reverse=True))
