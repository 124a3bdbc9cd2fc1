"""Headers of a message: names and values that its producer sets and every reader gets."""

from __future__ import annotations

from collections.abc import Mapping

HEADERS_MAX = 64
HEADERS_BYTES_MAX = 8192
"""Names and values together, in UTF-8."""


def headers_problem(headers: Mapping[str, str]) -> str | None:
    """Why these headers are refused, or None when they are not."""
    if len(headers) > HEADERS_MAX:
        return f"must have at most {HEADERS_MAX} names (it has {len(headers)})"
    size = sum(len(name.encode()) + len(value.encode()) for name, value in headers.items())
    if size > HEADERS_BYTES_MAX:
        return f"must have at most {HEADERS_BYTES_MAX} bytes of names and values (it has {size})"
    if "" in headers:
        return "must not have an empty name"
    return None
