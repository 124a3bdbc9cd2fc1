"""Reading many members in bounded memory: a page of each sorted set, merged in the order of their bytes."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import TypeVar

from driftq.sinks.redis.connection import RedisConnection

PAGE = 500
"""Documents of one script, one answer or one step of a scan: a script of these takes a few milliseconds."""
_Item = TypeVar("_Item")


def pages(items: Iterable[_Item]) -> Iterator[list[_Item]]:
    rest = iter(items)
    while page := list(islice(rest, PAGE)):
        yield page


def merged_members(connection: RedisConnection, keys: Sequence[bytes]) -> Iterator[bytes]:
    """The members of sets whose scores are all equal. Members that are added meanwhile may be missing.

    The order of UTF-8's bytes is that of Python's texts.
    """
    first = connection.commands([_page_after(key, b"-") for key in keys])
    return heapq.merge(
        *(_members(connection, key, page) for key, page in zip(keys, first, strict=True) if page)
    )


def _members(connection: RedisConnection, key: bytes, page: list[bytes]) -> Iterator[bytes]:
    yield from page
    while len(page) == PAGE:
        page = connection.command(*_page_after(key, b"(" + page[-1]))
        yield from page


def _page_after(key: bytes, after: bytes) -> tuple[bytes | str | int, ...]:
    return ("ZRANGEBYLEX", key, after, "+", "LIMIT", 0, PAGE)
