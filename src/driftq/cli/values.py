"""The values of deliveries: filtering and formatting them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import typer


class ValueFilter:
    """Conditions like `customer.tier=gold` that must all hold; `key=…` is the message's key."""

    def __init__(self, conditions: Sequence[str]) -> None:
        self._conditions: list[tuple[str, str]] = []
        for condition in conditions:
            field, equals, text = condition.partition("=")
            if not equals or not field:
                raise typer.BadParameter(f"--where {condition}: give it as FIELD=TEXT")
            self._conditions.append((field, text))

    def has(self, delivery: Mapping[str, Any]) -> bool:
        if not self._conditions:
            return True
        content = read_json(delivery["value"])
        return all(
            delivery.get("key", "") == text if field == "key" else _text(content, field) == text
            for field, text in self._conditions
        )


def _text(content: Any, path: str) -> str | None:
    """A field of the JSON value as text."""
    for name in path.split("."):
        if not isinstance(content, dict) or name not in content:
            return None
        content = content[name]
    return content if isinstance(content, str) else json.dumps(content, ensure_ascii=False)


def read_json(value: str) -> Any:
    """The value decoded as JSON; None if it is not JSON."""
    try:
        return json.loads(value)
    except ValueError:
        return None


def indented(value: str) -> str:
    """JSON over several lines; any other text as it is."""
    content = read_json(value)
    return json.dumps(content, ensure_ascii=False, indent=2) if isinstance(content, dict | list) else value
