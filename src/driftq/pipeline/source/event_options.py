"""The options of `format("driftq-events")`, checked once."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from driftq.errors import InvalidArgument
from driftq.model.options.credentials import NO_CREDENTIALS, Credentials
from driftq.pipeline.source.options import OF_SERVER, wait_option
from driftq.pipeline.spark.option_values import credentials_of, int_option, read_names, yes_or_no
from driftq.settings import load_data, load_settings, load_url

Position = int | Literal["earliest", "latest"]
OF_BATCHES = ("endingPosition", "pushDownPredicate")
NAMES = (
    "startingPosition",
    *OF_BATCHES,
    "maxEventsPerTrigger",
    "maxWait",
    "objectsUrl",
    "s3Endpoint",
    *OF_SERVER,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class EventLogOptions:
    """Which part of the event log to read, and where its segments are."""

    url: str
    data: str
    """The server's folder, if it can be reached from here."""
    objects_url: str | None = None
    """Where the segments are, if not in that folder."""
    s3_endpoint: str | None = None
    credentials: Credentials = NO_CREDENTIALS
    starting: Position = "earliest"
    ending: Position = "latest"
    events_max: int | None = None
    """In one micro-batch."""
    wait_ms: int = 0
    """How long a trigger waits at the server for a first event; Spark asks again after that."""
    pushes_down: bool = False
    """Whether filters on `position` narrow what is read."""


def read_event_options(given: Mapping[str, str], *, streaming: bool) -> EventLogOptions:
    """The options of a query; raises InvalidArgument, which names the option."""
    options = event_option_names(given)
    for name in OF_BATCHES if streaming else ():
        if name.lower() in options:
            raise InvalidArgument(name, "is for spark.read; a stream has no end and reads everything")
    kept = load_settings().events
    ending = _position("endingPosition", options.get("endingposition", "latest"))
    if ending == "earliest":
        raise InvalidArgument("endingPosition", "must be latest or a position")
    return EventLogOptions(
        url=load_url(options.get("url")),
        data=os.path.abspath(load_data(options.get("data"))),
        objects_url=options.get("objectsurl", kept.objects_url),
        s3_endpoint=options.get("s3endpoint", kept.s3_endpoint),
        credentials=credentials_of(options),
        starting=_position("startingPosition", options.get("startingposition", "earliest")),
        ending=ending,
        events_max=int_option("maxEventsPerTrigger", options.get("maxeventspertrigger")),
        wait_ms=wait_option(options.get("maxwait")),
        pushes_down=yes_or_no("pushDownPredicate", options.get("pushdownpredicate", "false")),
    )


def event_option_names(given: Mapping[str, str]) -> dict[str, str]:
    """The options by their names in lower case; raises InvalidArgument for a name that is not known."""
    return read_names(given, NAMES, use='format("driftq-events")')


def _position(name: str, text: str) -> Position:
    if text == "earliest":
        return "earliest"
    if text == "latest":
        return "latest"
    if not text.isdecimal() or int(text) < 1:
        raise InvalidArgument(name, f"must be earliest, latest or a position from 1 on, not {text!r}")
    return int(text)
