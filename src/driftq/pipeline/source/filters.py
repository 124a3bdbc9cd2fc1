"""A query's filters as limits of what is read. Pure.

Spark applies every filter itself, whatever is read. So limits may be wider than the filters, and a filter
that is not understood limits nothing. Filters are known by the names of their classes: pyspark 4.0 has none.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from driftq.model.time import microseconds

_HIGHER = {"GreaterThan": 1, "GreaterThanOrEqual": 0}
_LOWER = {"LessThan": 0, "LessThanOrEqual": 1}
_EQUAL = ("EqualTo", "EqualNullSafe")


@dataclass(frozen=True, slots=True)
class ValueRange:
    """Whole numbers from `low` up to, without, `high`."""

    low: int | None = None
    high: int | None = None

    def within(self, low: int | None, high: int | None) -> ValueRange:
        """What is in both."""
        lows = [each for each in (self.low, low) if each is not None]
        highs = [each for each in (self.high, high) if each is not None]
        return ValueRange(max(lows, default=None), min(highs, default=None))

    def __contains__(self, number: int) -> bool:
        return (self.low is None or number >= self.low) and (self.high is None or number < self.high)


@dataclass(frozen=True, slots=True)
class ColumnLimits:
    """What the filters leave of each column."""

    numbers: Mapping[str, ValueRange] = field(default_factory=dict)
    """By column; of a timestamp, microseconds since 1970."""
    texts: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """By column; a column that is not here may have any text."""

    def of(self, column: str) -> ValueRange:
        return self.numbers.get(column, ValueRange())

    def allows(self, column: str, text: str) -> bool:
        return column not in self.texts or text in self.texts[column]


def limits_of(filters: Iterable[Any]) -> ColumnLimits:
    """The limits that these filters, which all apply, set together."""
    numbers: dict[str, ValueRange] = {}
    texts: dict[str, frozenset[str]] = {}
    for one in filters:
        path: tuple[str, ...] = getattr(one, "attribute", ())
        kind, value = type(one).__name__, getattr(one, "value", None)
        if len(path) != 1 or value is None:
            continue
        column = path[0]
        chosen = [value] if kind in _EQUAL else list(value) if kind == "In" else None
        if chosen is not None and all(isinstance(each, str) for each in chosen):
            texts[column] = texts.get(column, frozenset(chosen)) & frozenset(chosen)
            continue
        limits = _range(kind, value) if chosen is None else _hull(chosen)
        if limits is not None:
            numbers[column] = numbers.get(column, ValueRange()).within(limits.low, limits.high)
    return ColumnLimits(numbers, texts)


def _range(kind: str, value: Any) -> ValueRange | None:
    number = _number(value)
    if number is None:
        return None
    if kind in _HIGHER:
        return ValueRange(low=number + _HIGHER[kind])
    if kind in _LOWER:
        return ValueRange(high=number + _LOWER[kind])
    return None


def _hull(values: Iterable[Any]) -> ValueRange | None:
    """From the smallest to the largest; a null among them matches nothing."""
    numbers = [_number(value) for value in values if value is not None]
    known = [number for number in numbers if number is not None]
    if not known or len(known) < len(numbers):
        return None
    return ValueRange(min(known), max(known) + 1)


def _number(value: Any) -> int | None:
    if isinstance(value, dt.datetime):
        return None if value.tzinfo is None else microseconds(value)
    return value if isinstance(value, int) and not isinstance(value, bool) else None
