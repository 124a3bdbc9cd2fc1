"""Conditions of a rule: what a field of a message has to be.

A text is compared whole, or as a pattern when it has `*` or `?` in it. A list matches any of its members. A
table compares with `above`, `below` or `present`. Numbers and booleans are compared as they are.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from fnmatch import translate
from typing import Any

MISSING = object()
"""The value of a field that a message does not have."""

Test = Callable[[Any], bool]

_COMPARISONS = ("above", "below", "present")


class ConditionRefused(ValueError):
    """An invalid condition."""


def read_condition(given: Any) -> Test:
    """A test for one field; raises ConditionRefused."""
    if isinstance(given, dict):
        return _read_table(given)
    if isinstance(given, list):
        if not given:
            raise ConditionRefused("an empty list matches nothing")
        tests = [read_condition(condition) for condition in given]
        return lambda value: any(test(value) for test in tests)
    if isinstance(given, str) and ("*" in given or "?" in given):
        pattern = re.compile(translate(given))
        return lambda value: isinstance(value, str) and pattern.match(value) is not None
    if isinstance(given, str | bool | int | float):
        return lambda value: type(value) is type(given) and value == given
    raise ConditionRefused(f"{given!r} is neither a text, a number, true, false, a list nor a table")


def _read_table(given: dict[str, Any]) -> Test:
    unknown = sorted(set(given) - set(_COMPARISONS))
    if unknown or not given:
        raise ConditionRefused(
            f"a table takes {', '.join(_COMPARISONS)}, not {', '.join(unknown) or 'nothing'}"
        )
    tests: list[Test] = []
    for name in ("above", "below"):
        if name in given:
            limit = given[name]
            if isinstance(limit, bool) or not isinstance(limit, int | float):
                raise ConditionRefused(f"{name} takes a number")
            tests.append(_compare(limit, above=name == "above"))
    if "present" in given:
        if not isinstance(given["present"], bool):
            raise ConditionRefused("present takes true or false")
        wanted = given["present"]
        tests.append(lambda value: (value is not MISSING) is wanted)
    return lambda value: all(test(value) for test in tests)


def _compare(limit: float, *, above: bool) -> Test:
    def test(value: Any) -> bool:
        if isinstance(value, bool) or not isinstance(value, int | float):
            return False
        return value > limit if above else value < limit

    return test


def find(content: Any, path: str) -> Any:
    """A field by its dotted path: `customer.tier`, `items.0.sku`."""
    for name in path.split("."):
        if isinstance(content, dict):
            content = content.get(name, MISSING)
        elif isinstance(content, list) and name.isdigit() and int(name) < len(content):
            content = content[int(name)]
        else:
            return MISSING
        if content is MISSING:
            return MISSING
    return content
