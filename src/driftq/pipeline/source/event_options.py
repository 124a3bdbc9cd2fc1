"""The options of `format("driftq-events")`, checked once."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from driftq.errors import InvalidArgument
from driftq.pipeline.source.options import int_option
from driftq.settings import load_data, load_settings, load_url

Position = int | Literal["earliest", "latest"]


@dataclass(frozen=True, slots=True, kw_only=True)
class EventLogOptions:
    """Which part of the event log to read, and where its segments are."""

    url: str
    data: str
    """The server's folder, if it can be reached from here."""
    objects_url: str | None = None
    """Where the segments are, if not in that folder."""
    s3_endpoint: str | None = None
    api_key: str | None = None
    starting: Position = "earliest"
    ending: Position = "latest"
    events_max: int | None = None
    """In one micro-batch."""


def read_event_options(given: Mapping[str, str], *, streaming: bool) -> EventLogOptions:
    """The options of a query; raises InvalidArgument, which names the option."""
    options = {name.lower(): value for name, value in given.items()}
    if streaming and "endingposition" in options:
        raise InvalidArgument("endingPosition", "a stream has no end; use it with spark.read")
    kept = load_settings().events
    ending = _position("endingPosition", options.get("endingposition", "latest"))
    if ending == "earliest":
        raise InvalidArgument("endingPosition", "must be latest or a position")
    return EventLogOptions(
        url=load_url(options.get("url")),
        data=os.path.abspath(load_data(options.get("data"))),
        objects_url=options.get("objectsurl", kept.objects_url),
        s3_endpoint=options.get("s3endpoint", kept.s3_endpoint),
        api_key=options.get("apikey"),
        starting=_position("startingPosition", options.get("startingposition", "earliest")),
        ending=ending,
        events_max=int_option("maxEventsPerTrigger", options.get("maxeventspertrigger")),
    )


def _position(name: str, text: str) -> Position:
    if text == "earliest":
        return "earliest"
    if text == "latest":
        return "latest"
    if not text.isdecimal() or int(text) < 1:
        raise InvalidArgument(name, f"must be earliest, latest or a position from 1 on, not {text!r}")
    return int(text)
