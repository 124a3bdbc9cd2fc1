"""What can be said to `format("driftq")`, read once and checked."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from driftq.errors import InvalidArgument
from driftq.settings import load_url

Offsets = dict[str, dict[str, int]]
"""Per topic and partition the next offset to read; also what Spark keeps in its checkpoint."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicOptions:
    """Which topics to read, from where to where, and how much at once."""

    url: str
    topics: tuple[str, ...] = ()
    pattern: str | None = None


def read_topic_options(given: Mapping[str, str]) -> TopicOptions:
    """The options of a query; raises InvalidArgument, which names the option."""
    options = {name.lower(): value for name, value in given.items()}
    topics = tuple(name.strip() for name in options.get("subscribe", "").split(",") if name.strip())
    pattern = options.get("subscribepattern")
    if bool(topics) == bool(pattern):
        raise InvalidArgument(
            "subscribe", 'name topics with option("subscribe", "orders,users"), or use subscribePattern'
        )
    if pattern is not None:
        try:
            re.compile(pattern)
        except re.error as problem:
            raise InvalidArgument("subscribePattern", f"{pattern!r} is not a pattern: {problem}") from None
    return TopicOptions(url=load_url(options.get("url")), topics=topics, pattern=pattern)
