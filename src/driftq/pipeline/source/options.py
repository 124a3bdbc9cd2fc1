"""The options of `format("driftq")` for reading, checked once."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass

from driftq.errors import InvalidArgument
from driftq.pipeline.source.offsets import Boundary, Offsets, parse_offsets
from driftq.settings import load_data, load_url

NEWEST_BY = ("aggregate_id", "key")


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicSourceOptions:
    """Which topics to read, from where to where, and how much at once."""

    url: str
    data: str
    """The server's folder, if it can be reached from here."""
    api_key: str | None = None
    topics: tuple[str, ...] = ()
    pattern: str | None = None
    starting: Boundary | Offsets = "earliest"
    ending: Boundary | Offsets = "latest"
    messages_max: int | None = None
    """In one micro-batch."""
    fail_on_data_loss: bool = True
    reader: str | None = None
    """The name under which a stream reports its progress."""
    newest_by: str | None = None
    """Leave out messages that a newer one of the same aggregate, or key, supersedes."""


def read_topic_options(given: Mapping[str, str], *, streaming: bool) -> TopicSourceOptions:
    """The options of a query; raises InvalidArgument, which names the option."""
    options = {name.lower(): value for name, value in given.items()}
    topics = tuple(name.strip() for name in options.get("subscribe", "").split(",") if name.strip())
    pattern = options.get("subscribepattern")
    if bool(topics) == bool(pattern):
        raise InvalidArgument(
            "subscribe", 'name topics with option("subscribe", "orders,users"), or give a subscribePattern'
        )
    if pattern is not None:
        try:
            re.compile(pattern)
        except re.error as problem:
            raise InvalidArgument("subscribePattern", f"{pattern!r} is not a pattern: {problem}") from None
    if streaming and "endingoffsets" in options:
        raise InvalidArgument("endingOffsets", "a stream has no end; use it with spark.read")
    ending = parse_offsets("endingOffsets", options.get("endingoffsets", "latest"))
    if ending == "earliest":
        raise InvalidArgument("endingOffsets", "must be latest or JSON")
    newest_by = options.get("newestby")
    if newest_by not in (None, *NEWEST_BY):
        raise InvalidArgument("newestBy", f"must be one of {', '.join(NEWEST_BY)}, not {newest_by!r}")
    return TopicSourceOptions(
        url=load_url(options.get("url")),
        data=os.path.abspath(load_data(options.get("data"))),
        api_key=options.get("apikey"),
        topics=topics,
        pattern=pattern,
        starting=parse_offsets("startingOffsets", options.get("startingoffsets", "earliest")),
        ending=ending,
        messages_max=int_option("maxOffsetsPerTrigger", options.get("maxoffsetspertrigger")),
        fail_on_data_loss=yes_or_no("failOnDataLoss", options.get("failondataloss", "true")),
        reader=options.get("reader"),
        newest_by=newest_by,
    )


def int_option(name: str, text: str | None) -> int | None:
    """A whole number from 1 on."""
    if text is None:
        return None
    if not text.isdecimal() or int(text) < 1:
        raise InvalidArgument(name, f"must be a whole number from 1 on, not {text!r}")
    return int(text)


def yes_or_no(name: str, text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise InvalidArgument(name, f"must be true or false, not {text!r}")
    return text.lower() == "true"
