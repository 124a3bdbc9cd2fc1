"""Rows of Spark's Kafka source as messages: the columns that DriftQ's own topics have.

The publisher writes the columns of an event as headers, in a fixed order, so that no task has to parse the
value to find them. A message from another producer has no such headers; its value is parsed instead. Nothing
here calls Python for a row.

Spark checks each value byte by byte for valid UTF-8, which costs more than to fetch it. It computes only the
columns that a query selects, so tasks that can check the bytes themselves select `VALUE_BYTES`, not `value`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as f

from driftq.pipeline.transport.port import COLUMNS, EVENT_HEADERS, NOT_TEXT, VALUE_BYTES

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_IN_VALUE = "event_id string, aggregate_type string, aggregate_id string, sequence_number long"


def as_messages(rows: DataFrame) -> DataFrame:
    """`COLUMNS` and `VALUE_BYTES` of rows that were read with `includeHeaders`."""
    value = text_of("value")
    published = _published()
    in_value = f.from_json(value, _IN_VALUE)
    events = {
        name: f.when(published, _header(number)).otherwise(in_value[name])
        for number, name in enumerate(EVENT_HEADERS)
    }
    events["sequence_number"] = events["sequence_number"].cast("long")
    made = {"key": text_of("key"), "value": value, **events}
    named = (made[name].alias(name) if name in made else f.col(name) for name in COLUMNS)
    return rows.select(*named, f.col("value").alias(VALUE_BYTES))


def _published() -> Column:
    """Whether the headers are those of the publisher."""
    found = f.col("headers").isNotNull() & (f.size("headers") >= len(EVENT_HEADERS))
    for number, name in enumerate(EVENT_HEADERS):
        found &= f.get("headers", f.lit(number))["key"] == name
    return found


def _header(number: int) -> Column:
    return f.get("headers", f.lit(number))["value"].cast("string")


def text_of(column: str) -> Column:
    """Key or value as text; bytes that are none follow NOT_TEXT, and null stays null."""
    text = f.try_validate_utf8(f.col(column).cast("string"))
    return f.coalesce(text, f.concat(f.lit(NOT_TEXT), f.base64(column)))


def header_text(name: str) -> Column:
    """The first header of this name as text; null where there is none."""
    found = f.filter("headers", lambda header: header["key"] == name)
    return f.get(found, f.lit(0))["value"].cast("string")
