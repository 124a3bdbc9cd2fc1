"""The options of `format("driftq")` for writing, read once and checked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from driftq.errors import InvalidArgument
from driftq.model.options.credentials import Credentials
from driftq.pipeline.spark.option_values import credentials_of, read_names
from driftq.settings import load_settings, load_url

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

TEXT_COLUMNS = ("key", "value", "envelope", "topic")
NAMES = (
    "url",
    "apiKey",
    "caFile",
    "clientCert",
    "clientKey",
    "topic",
    "partitions",
    "writer",
    "stagingLocation",
    "checkpointLocation",
    "s3Endpoint",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkOptions:
    """Where rows go, and where they are staged until all have arrived."""

    url: str
    credentials: Credentials
    topic: str | None
    """The topic of rows that name none."""
    partitions: int
    """Of topics that are created because they are missing."""
    writer: str | None
    staging: str | None
    checkpoint: str | None
    s3_endpoint: str | None
    """Of a bucket that is not Amazon's."""


def read_sink_options(given: Mapping[str, str], schema: StructType, *, overwrite: bool) -> SinkOptions:
    """The options of a query that writes; raises InvalidArgument, which names the option or the column."""
    if overwrite:
        raise InvalidArgument("mode", 'a topic is appended to: use mode("append")')
    options = read_names(given, NAMES, use='format("driftq") for writing')
    _check_columns(schema, topic=options.get("topic"))
    checkpoint = options.get("checkpointlocation")
    staging = options.get("staginglocation")
    return SinkOptions(
        url=load_url(options.get("url")),
        credentials=credentials_of(options),
        topic=options.get("topic"),
        partitions=_partitions(options.get("partitions", "1")),
        writer=options.get("writer"),
        staging=_as_url(staging, "stagingLocation") if staging else None,
        checkpoint=_as_url(checkpoint, "checkpointLocation") if checkpoint else None,
        s3_endpoint=options.get("s3endpoint", load_settings().events.s3_endpoint),
    )


def _check_columns(schema: StructType, *, topic: str | None) -> None:
    kinds = {field.name: field.dataType.simpleString() for field in schema}
    if "value" not in kinds:
        raise InvalidArgument("value", "the rows need a column of this name: it is the message")
    if topic is None and "topic" not in kinds:
        raise InvalidArgument("topic", 'name one with option("topic", …), or give the rows a column topic')
    for name in TEXT_COLUMNS:
        if kinds.get(name, "string") != "string":
            raise InvalidArgument(name, f"the column must be a string, not {kinds[name]}: cast it")


def _partitions(text: str) -> int:
    if not text.isdecimal() or not int(text):
        raise InvalidArgument("partitions", f"{text!r} is not a number of partitions")
    return int(text)


def _as_url(location: str, option: str) -> str:
    """A folder or a bucket, as Spark's users write them."""
    if location.startswith("/"):
        return Path(location).as_uri()
    scheme, _, rest = location.partition(":")
    if scheme == "file" and rest.startswith("/"):
        return "file:///" + rest.lstrip("/")
    if scheme in ("s3", "s3a"):
        return f"s3:{rest}"
    raise InvalidArgument(
        option, f"{location!r} is neither a folder nor a bucket (s3://…): set stagingLocation to one"
    )
