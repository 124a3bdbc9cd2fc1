"""Rows of Spark's Kafka source, which bridges read: keys, values and headers as texts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as f

from driftq.pipeline.transport.port import NOT_TEXT

if TYPE_CHECKING:
    from pyspark.sql import Column


def text_of(column: str) -> Column:
    """Key or value as text; bytes that are none follow NOT_TEXT, and null stays null."""
    text = f.try_validate_utf8(f.col(column).cast("string"))
    return f.coalesce(text, f.concat(f.lit(NOT_TEXT), f.base64(column)))


def header_text(name: str) -> Column:
    """The first header of this name as text; null where there is none."""
    found = f.filter("headers", lambda header: header["key"] == name)
    return f.get(found, f.lit(0))["value"].cast("string")
