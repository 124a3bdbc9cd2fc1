"""A driver's assignment, and its reports while it works: JSON between two processes."""

from __future__ import annotations

import re
import threading
from typing import BinaryIO
from urllib.parse import unquote, urlsplit

import msgspec

from driftq.model.options.pipeline import PipelineOptions
from driftq.pipeline.bridge.route import BridgeRoute
from driftq.pipeline.runtime.status import JobStatus

_SECRET_NAME = re.compile("password|secret|token|key", re.IGNORECASE)
DRIVER = "driver"
"""The job name in a report about the driver itself: then none of its jobs runs."""


class DriverSpec(msgspec.Struct, frozen=True, kw_only=True):
    """One run of the pipeline. It goes through a pipe: a password in it is on no command line."""

    what: tuple[str, ...]
    """Built-in jobs by name, or one file of a user."""
    options: PipelineOptions
    once: bool = False
    app: str | None = None
    """The file with handlers and projections."""
    name: str | None = None
    """Only this handler or projection."""
    master: str | None = None
    """Spark's master; this machine by default."""
    route: BridgeRoute | None = None
    """From where to where a bridge copies."""
    conf: dict[str, str] = {}
    """Settings of Spark that count before ours."""
    restarting: bool = False
    """An earlier driver of this run has died: a job that cannot start now may start later."""


class StartedReport(msgspec.Struct, frozen=True, tag=True):
    """A job's query runs."""

    job: str


class ProgressReport(msgspec.Struct, frozen=True, tag=True):
    """A batch is finished, or there was nothing to do for a while."""

    status: JobStatus


class NoticeReport(msgspec.Struct, frozen=True, tag=True):
    """A job's progress, in words."""

    job: str
    text: str


class FailureReport(msgspec.Struct, frozen=True, tag=True):
    """A query failed; it restarts after `retry_s`, or not at all."""

    job: str
    error: str
    retry_s: float | None


class EndReport(msgspec.Struct, frozen=True, tag=True):
    """A job has finished its work, or was stopped."""

    job: str


class RefusalReport(msgspec.Struct, frozen=True, tag=True):
    """A permanent failure: an error in the app, Java missing, no server."""

    error: str


Report = StartedReport | ProgressReport | NoticeReport | FailureReport | EndReport | RefusalReport

_encode = msgspec.json.Encoder().encode
_decoder: msgspec.json.Decoder[Report] = msgspec.json.Decoder(Report)


class Reporter:
    """The driver's side. Its reports contain no password."""

    def __init__(self, pipe: BinaryIO, options: PipelineOptions) -> None:
        self._pipe = pipe
        self._secrets = secrets_of(options)
        self._lock = threading.Lock()  # Spark's listener reports from a thread of its own.

    def say(self, report: Report) -> None:
        line = _encode(report)
        with self._lock:
            try:
                self._pipe.write(line + b"\n")
                self._pipe.flush()
            except (BrokenPipeError, ValueError):
                pass  # The supervisor has ended: the lifeline ends this process.

    def clean(self, text: str) -> str:
        """The text without passwords."""
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
    """The API key of a run, and passwords in its addresses, encoded and decoded."""
    own = (options.events.database_url, options.events.objects_url, options.url)
    key = options.credentials.api_key
    found = set(options.kafka.secrets) | (set() if key is None else {key})
    for address in (*filter(None, own), *options.sinks, *options.default_sinks):
        parts = urlsplit(address)
        given = [parts.password] if parts.password else []
        pairs = (pair.partition("=") for pair in parts.query.split("&"))
        given += [value for name, _, value in pairs if value and _SECRET_NAME.search(name)]
        found |= {secret for one in given for secret in (one, unquote(one))}
    return tuple(sorted(found, key=len, reverse=True))
