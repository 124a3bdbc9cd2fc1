"""Many changes at a client's rate: they go to the engine in parts, with pauses in between."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import TypeVar

_T = TypeVar("_T")


async def in_parts(
    items: Sequence[_T], *, together: int, rate_per_s: int | None
) -> AsyncIterator[Sequence[_T]]:
    """Parts of at most `together`; with a rate about ten a second, and a pause after each but the last."""
    if rate_per_s:
        together = min(together, max(1, rate_per_s // 10))
    for start in range(0, len(items), together):
        part = items[start : start + together]
        yield part
        if rate_per_s and start + together < len(items):
            await asyncio.sleep(len(part) / rate_per_s)
