"""The options of `format("driftq")` for reading, checked once."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from driftq.errors import InvalidArgument
from driftq.model.options.credentials import NO_CREDENTIALS, Credentials
from driftq.pipeline.source.offsets import Boundary, Offsets, Times, parse_offsets, parse_time, parse_times
from driftq.pipeline.spark.option_values import credentials_of, duration_ms, int_option, read_names, yes_or_no
from driftq.settings import load_data, load_url

NEWEST_BY = ("aggregate_id", "key")
UNMATCHED = ("error", "latest")
TRIGGER_DELAY = "15m"
WAIT_MS_MAX = 20_000
OF_TLS = ("caFile", "clientCert", "clientKey")
OF_SERVER = ("url", "data", "apiKey", *OF_TLS)
OF_BATCHES = ("endingOffsets", "endingTimestamp", "endingOffsetsByTimestamp", "pushDownPredicate")
OF_STREAMS = ("maxOffsetsPerTrigger", "minOffsetsPerTrigger", "maxTriggerDelay", "maxWait", "reader")
NAMES = (
    "subscribe",
    "subscribePattern",
    "startingOffsets",
    "startingTimestamp",
    "startingOffsetsByTimestamp",
    "startingOffsetsByTimestampStrategy",
    *OF_BATCHES,
    *OF_STREAMS,
    "minPartitions",
    "maxRecordsPerPartition",
    "failOnDataLoss",
    "includeHeaders",
    "newestBy",
    *OF_SERVER,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicSourceOptions:
    """Which topics to read, from where to where, and how much at once."""

    url: str
    data: str
    """The server's folder, if it can be reached from here."""
    credentials: Credentials = NO_CREDENTIALS
    topics: tuple[str, ...] = ()
    pattern: str | None = None
    starting: Boundary | Offsets | Times = "earliest"
    ending: Boundary | Offsets | Times = "latest"
    unmatched: Literal["error", "latest"] = "error"
    """What a starting time means in a partition that has no message from then on."""
    messages_max: int | None = None
    """In one micro-batch."""
    messages_min: int | None = None
    """A micro-batch waits for so many, up to `trigger_delay_ms` after the one before."""
    trigger_delay_ms: int = 0
    wait_ms: int = 0
    """How long a trigger waits at the server for a first message; Spark asks again after that."""
    partitions_min: int | None = None
    """Of the plan: a topic's partition is cut where it has fewer."""
    records_max: int | None = None
    """In one partition of the plan."""
    fail_on_data_loss: bool = True
    include_headers: bool = False
    pushes_down: bool = False
    """Whether filters of the query narrow what is read."""
    reader: str | None = None
    """The name under which a stream reports its progress."""
    newest_by: str | None = None
    """Leave out messages that a newer one of the same aggregate, or key, supersedes."""


def read_topic_options(given: Mapping[str, str], *, streaming: bool) -> TopicSourceOptions:
    """The options of a query; raises InvalidArgument, which names the option."""
    options = topic_option_names(given)
    if streaming:
        for name in OF_BATCHES:
            if name.lower() in options:
                raise InvalidArgument(name, "is for spark.read; a stream has no end and reads everything")
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
    newest_by = options.get("newestby")
    if newest_by not in (None, *NEWEST_BY):
        raise InvalidArgument("newestBy", f"must be one of {', '.join(NEWEST_BY)}, not {newest_by!r}")
    pushes_down = yes_or_no("pushDownPredicate", options.get("pushdownpredicate", "false"))
    if pushes_down and newest_by is not None:
        raise InvalidArgument("pushDownPredicate", "with newestBy the filter would decide what is the newest")
    most = int_option("maxOffsetsPerTrigger", options.get("maxoffsetspertrigger"))
    least = int_option("minOffsetsPerTrigger", options.get("minoffsetspertrigger"))
    if most is not None and least is not None and least > most:
        raise InvalidArgument("minOffsetsPerTrigger", f"{least} is more than maxOffsetsPerTrigger, {most}")
    return TopicSourceOptions(
        url=load_url(options.get("url")),
        data=os.path.abspath(load_data(options.get("data"))),
        credentials=credentials_of(options),
        topics=topics,
        pattern=pattern,
        starting=_bound(options, "starting", otherwise="earliest"),
        ending=_ending(options),
        unmatched=_unmatched(options.get("startingoffsetsbytimestampstrategy", "error")),
        messages_max=most,
        messages_min=least,
        trigger_delay_ms=duration_ms("maxTriggerDelay", options.get("maxtriggerdelay", TRIGGER_DELAY)),
        wait_ms=wait_option(options.get("maxwait")),
        partitions_min=int_option("minPartitions", options.get("minpartitions")),
        records_max=int_option("maxRecordsPerPartition", options.get("maxrecordsperpartition")),
        fail_on_data_loss=yes_or_no("failOnDataLoss", options.get("failondataloss", "true")),
        include_headers=includes_headers(options),
        pushes_down=pushes_down,
        reader=options.get("reader"),
        newest_by=newest_by,
    )


def wait_option(text: str | None) -> int:
    """Milliseconds of `maxWait`; raises InvalidArgument for more than a call may take."""
    wait_ms = 0 if text is None else duration_ms("maxWait", text)
    if wait_ms > WAIT_MS_MAX:
        raise InvalidArgument("maxWait", f"must be at most {WAIT_MS_MAX // 1000} s, not {text!r}")
    return wait_ms


def topic_option_names(given: Mapping[str, str]) -> dict[str, str]:
    """The options by their names in lower case; raises InvalidArgument for a name that is not known."""
    return read_names(given, NAMES, use='format("driftq") for reading')


def includes_headers(options: Mapping[str, str]) -> bool:
    """Whether rows have the column `headers`; `options` by their names in lower case."""
    return yes_or_no("includeHeaders", options.get("includeheaders", "false"))


def _bound(options: Mapping[str, str], side: str, *, otherwise: str) -> Boundary | Offsets | Times:
    """Where reading starts or ends. As for Kafka, a time for all comes first, then times, then offsets."""
    at, times = f"{side}Timestamp", f"{side}OffsetsByTimestamp"
    if at.lower() in options:
        return parse_time(at, options[at.lower()])
    if times.lower() in options:
        return parse_times(times, options[times.lower()])
    return parse_offsets(f"{side}Offsets", options.get(f"{side}offsets", otherwise))


def _ending(options: Mapping[str, str]) -> Boundary | Offsets | Times:
    ending = _bound(options, "ending", otherwise="latest")
    if ending == "earliest":
        raise InvalidArgument("endingOffsets", "must be latest or JSON")
    return ending


def _unmatched(text: str) -> Literal["error", "latest"]:
    if text not in UNMATCHED:
        raise InvalidArgument(
            "startingOffsetsByTimestampStrategy", f"must be one of {', '.join(UNMATCHED)}, not {text!r}"
        )
    return "error" if text == "error" else "latest"
