"""Bulk requests: what was stored, what is refused, and what has to be sent again.

A server answers each item on its own, so a request is rarely a success or a failure as a whole:

    200, 201, 409      stored; a conflict means that this version or a newer one is there already
    400, 413           refused: it fails however often it is sent
    404                the place was dropped
    429, 5xx           not now: the server is overloaded, or a shard is away

An overloaded server refuses the whole request, or accepts it and refuses every item. Both mean the same: what
was not stored is sent again, in smaller requests and after longer pauses, until nothing has been stored for
some time. A request that is refused as a whole is halved until the item that is to blame stands alone.
"""

from __future__ import annotations

import random
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from driftq.errors import ReadModelUnavailable
from driftq.model.backoff import between, doubled
from driftq.sinks.opensearch.connection import SearchConnection, SearchProblem, problem_of

CHUNK_ITEMS = 1000
CHUNK_BYTES = 5_000_000
"""Of one request; an item that is larger is sent alone."""
_PAUSE_S = 0.1
_PAUSE_CAP_S = 5.0
_WHOLE = {
    "filter_path": "errors,items.*.status,items.*.error.type,items.*.error.reason,items.*.error.caused_by"
}
_REFUSED = (400, 413)
_GONE = 404
_CONFLICT = 409


class _Result(msgspec.Struct):
    status: int
    error: Any = None


class _BulkReply(msgspec.Struct):
    errors: bool
    items: list[dict[str, _Result]]


_decode = msgspec.json.Decoder(_BulkReply).decode


class Bulk:
    """Sends items to one index."""

    def __init__(
        self,
        connection: SearchConnection,
        alias: str,
        *,
        retry_s: float,
        sleep: Callable[[float], None] = time.sleep,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._connection = connection
        self._alias = alias
        self._retry_s = retry_s
        self._sleep = sleep
        self._now = now

    def send(self, items: Sequence[bytes], *, absent_is_done: bool = False) -> dict[int, SearchProblem]:
        """The refused ones, by their place in `items`; all others are stored when it returns.

        Each item is its one or two lines. `absent_is_done`: they are deletions, and a place that was dropped
        has nothing left to delete. Raises ReadModelUnavailable, and then any of them may be stored.
        """
        pending = deque(range(len(items)))
        refused: dict[int, SearchProblem] = {}
        limit = CHUNK_ITEMS
        pauses = 0
        give_up_at = self._now() + self._retry_s
        while pending:
            chunk = _take(pending, items, limit)
            later, why = self._send_chunk(chunk, items, refused, absent_is_done=absent_is_done)
            pending.extendleft(reversed(later))
            if len(later) < len(chunk):
                pauses, give_up_at = 0, self._now() + self._retry_s
            if not later:
                limit = min(limit * 2, CHUNK_ITEMS)
                continue
            limit = max(1, len(chunk) // 2)
            if why is None:
                continue  # Refused as a whole: its halves tell which item is to blame.
            if self._now() >= give_up_at:
                raise why
            longest = doubled(_PAUSE_S, pauses, cap=_PAUSE_CAP_S)
            self._sleep(between(longest / 2, longest, random.random()))  # noqa: S311 - a pause is no secret
            pauses += 1
        return refused

    def _send_chunk(
        self,
        chunk: list[int],
        items: Sequence[bytes],
        refused: dict[int, SearchProblem],
        *,
        absent_is_done: bool,
    ) -> tuple[list[int], ReadModelUnavailable | None]:
        """What has to be sent again, and the reason; without a reason, in smaller requests."""
        reply = self._connection.call(
            "POST",
            f"/{self._alias}/_bulk",
            params=_WHOLE | {"require_alias": "true"},
            body=b"".join(items[at] for at in chunk),
            accept=range(400, 600),
            content_type="application/x-ndjson",
        )
        if reply.status >= 300:
            problem = problem_of(reply)
            if reply.status not in _REFUSED:
                return chunk, self._unavailable(reply.status, problem)
            if len(chunk) > 1:
                return chunk, None
            refused[chunk[0]] = problem
            return [], None
        return self._sorted(chunk, _decode(reply.text), refused, absent_is_done=absent_is_done)

    def _sorted(
        self, chunk: list[int], reply: _BulkReply, refused: dict[int, SearchProblem], *, absent_is_done: bool
    ) -> tuple[list[int], ReadModelUnavailable | None]:
        if len(reply.items) != len(chunk):
            got = f"an answer for {len(reply.items)} of {len(chunk)} documents"
            return chunk, ReadModelUnavailable(str(self._connection.address), cause=got)
        if not reply.errors and not absent_is_done:
            return [], None
        later: list[int] = []
        why: ReadModelUnavailable | None = None
        for at, item in zip(chunk, reply.items, strict=True):
            [result] = item.values()
            if result.status < 300 or result.status == _CONFLICT:
                continue
            if result.status == _GONE and absent_is_done:
                continue
            if result.status in _REFUSED:
                refused[at] = SearchProblem.of(result.error)
                continue
            later.append(at)
            why = self._unavailable(result.status, SearchProblem.of(result.error))
        return later, why

    def _unavailable(self, status: int, problem: SearchProblem) -> ReadModelUnavailable:
        """Of a failure that may pass; raises one that no repeat can mend."""
        failure = self._connection.failure(status, problem)
        if status == _GONE or not isinstance(failure, ReadModelUnavailable):
            raise failure
        return failure


def _take(pending: deque[int], items: Sequence[bytes], limit: int) -> list[int]:
    """The next items of one request, at least one."""
    chunk = [pending.popleft()]
    size = len(items[chunk[0]])
    while pending and len(chunk) < limit and size + len(items[pending[0]]) <= CHUNK_BYTES:
        size += len(items[pending[0]])
        chunk.append(pending.popleft())
    return chunk
