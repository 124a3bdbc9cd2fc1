"""Rows of Spark's Kafka source as messages: the columns that DriftQ's own topics have.

The publisher writes the columns of an event as headers, in a fixed order, so that no task has to parse the
value to find them. A message from another producer has no such headers; its value is parsed instead. Nothing
here calls Python for a row.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as f

from driftq.pipeline.transport.port import COLUMNS

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

HEADERS = ("event_id", "aggregate_type", "aggregate_id", "sequence_number")
"""The first headers of a published event, in this order."""
NOT_TEXT = "not UTF-8, in base64: "
"""Precedes bytes that are no text: no JSON begins like this, so such a message becomes a dead letter."""
_IN_VALUE = "event_id string, aggregate_type string, aggregate_id string, sequence_number long"


def as_messages(rows: DataFrame) -> DataFrame:
    """`COLUMNS` of rows that were read with `includeHeaders`."""
    value = text_of("value")
    published = _published()
    in_value = f.from_json(value, _IN_VALUE)
    events = {
        name: f.when(published, _header(number)).otherwise(in_value[name])
        for number, name in enumerate(HEADERS)
    }
    events["sequence_number"] = events["sequence_number"].cast("long")
    made = {"key": text_of("key"), "value": value, **events}
    return rows.select(*(made[name].alias(name) if name in made else f.col(name) for name in COLUMNS))


def _published() -> Column:
    """Whether the headers are those of the publisher."""
    found = f.col("headers").isNotNull() & (f.size("headers") >= len(HEADERS))
    for number, name in enumerate(HEADERS):
        found &= f.get("headers", f.lit(number))["key"] == name
    return found


def _header(number: int) -> Column:
    return f.get("headers", f.lit(number))["value"].cast("string")


def text_of(column: str) -> Column:
    """Key or value as text; bytes that are none follow NOT_TEXT, and null stays null."""
    text = f.col(column).cast("string")
    spelled = f.concat(f.lit(NOT_TEXT), f.base64(column))
    return f.when(f.col(column).isNull(), f.lit(None)).when(f.is_valid_utf8(text), text).otherwise(spelled)


def header_text(name: str) -> Column:
    """The first header of this name as text; null where there is none."""
    found = f.filter("headers", lambda header: header["key"] == name)
    return f.get(found, f.lit(0))["value"].cast("string")
