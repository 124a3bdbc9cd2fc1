"""The paths of the HTTP interface, and queries."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import quote, urlencode

Query = Mapping[str, str | int | bool | None]


def query_text(query: Query | None) -> str:
    """A query as it stands in a URL, without the parameters that are None."""
    given = {
        name: ("true" if value else "false") if isinstance(value, bool) else value
        for name, value in (query or {}).items()
        if value is not None
    }
    return "?" + urlencode(given) if given else ""


def topic_path(topic: str, rest: str = "") -> str:
    return f"/v1/topics/{quote(topic, safe='')}{rest}"


def group_path(topic: str, group: str) -> str:
    return topic_path(topic, f"/groups/{quote(group, safe='')}")
