"""Following the event log as a group, with the group's position on the server.

    async for event in store.follow(group="mail"): ...

An event counts as handled when the next one is asked for. The position moves over what is handled: with each
request for more events, each second while a page lasts, and when the follower closes. A follower that is
killed repeats at most what it handled since then. Requests wait on the server until an event is there.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal, Self
from urllib.parse import quote

import msgspec

from driftq.client.async_client import AsyncClient
from driftq.client.backoff import RetryBackoff
from driftq.client.options import TIMEOUT_S
from driftq.errors import DriftQError
from driftq.model import Event
from driftq.model.wire.events import FollowerReply
from driftq.transport.errors import is_transient

WAIT_MS = 30_000
PAGE_EVENTS = 500
MOVE_S = 1.0
_ANSWER_S = 15.0
"""How long a response may take beyond the wait that was asked for."""

logger = logging.getLogger("driftq.client")


class _FollowPage(msgspec.Struct, frozen=True):
    events: list[Event]
    next_position: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Following:
    """Which group follows which events."""

    group: str
    aggregate_type: str | None = None
    event_type: str | None = None
    start: Literal["earliest", "latest"] = "earliest"

    @property
    def path(self) -> str:
        return f"/v1/events/groups/{quote(self.group, safe='')}"


class AsyncEventFollower:
    """Events as they are appended, for `async for`; `close` ends it. For one task at a time."""

    def __init__(self, client: AsyncClient, following: Following) -> None:
        self._client = client
        self._following = following
        self._token: int | None = None
        self._page: Iterator[Event] = iter(())
        self._given: Event | None = None
        """The event that was handed out last, until the next one is asked for."""
        self._page_end = 0
        """Everything up to here is in the page, or was not wanted."""
        self._handled = 0
        self._stored = 0
        self._moved_at = time.monotonic()
        self._backoff = RetryBackoff()
        self._patience_ends = time.monotonic() + TIMEOUT_S
        """The end of the wait for the first response; later ones are waited for without limit."""
        self._closed = False

    @property
    def group(self) -> str:
        return self._following.group

    @property
    def position(self) -> int:
        """Everything up to here is handled."""
        return self._handled

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Event:
        while (event := self._arrived()) is None:
            if not await self._fill():
                raise StopAsyncIteration
        return event

    async def commit(self) -> None:
        """Store that the event handed out last is handled. Raises FollowerReplaced."""
        self._settle_given()
        await self._move()

    async def close(self) -> None:
        """Store what is handled, and end. The event handed out last does not count: commit it before."""
        if self._closed:
            return
        self._closed = True
        try:
            await self._move()
        except DriftQError as failure:
            logger.warning("the position of group %s was not stored: %s", self.group, failure.message)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def _arrived(self) -> Event | None:
        """The next event of the page; None when `_fill` has to be awaited first."""
        self._settle_given()
        if self._closed or (self._is_due() and self._handled > self._stored):
            return None
        self._given = next(self._page, None)
        return self._given

    def _settle_given(self) -> None:
        if self._given is not None:
            self._handled = self._given.position or 0
            self._given = None

    def _is_due(self) -> bool:
        return time.monotonic() - self._moved_at >= MOVE_S

    async def _fill(self) -> bool:
        """Move the position in the middle of a page, or wait for the next page. False when it is closed."""
        while not self._closed:
            try:
                if self._token is None:
                    await self._open()
                elif self._handled < self._page_end and self._is_due() and self._handled > self._stored:
                    await self._move()
                    return True
                else:
                    return await self._read_on()
            except DriftQError as failure:
                if not is_transient(failure) or time.monotonic() > self._patience_ends:
                    raise
                await asyncio.sleep(self._backoff.next_s())
        return False

    async def _open(self) -> None:
        body = {"start": self._following.start}
        opened: FollowerReply = await self._call("", body, kind=FollowerReply)
        self._token = opened.token
        self._handled = self._stored = self._page_end = opened.position

    async def _read_on(self) -> bool:
        """The next page. Everything of the page before it is handled."""
        self._handled = max(self._handled, self._page_end)
        following = self._following
        body: dict[str, Any] = {
            "token": self._token,
            "position": self._handled,
            "limit": PAGE_EVENTS,
            "wait_ms": WAIT_MS,
            "aggregate_type": following.aggregate_type,
            "event_type": following.event_type,
        }
        attempt_s = _ANSWER_S + WAIT_MS / 1000
        page: _FollowPage = await self._call("/read", body, kind=_FollowPage, attempt_s=attempt_s)
        self._note_stored(self._handled)
        self._page = iter(page.events)
        self._page_end = page.next_position - 1
        return True

    async def _move(self) -> None:
        handled = self._handled
        if self._token is not None and handled > self._stored:
            await self._call("/position", {"token": self._token, "position": handled})
            self._note_stored(handled)

    def _note_stored(self, position: int) -> None:
        self._stored = position
        self._moved_at = time.monotonic()

    async def _call(self, path: str, body: Any, *, kind: Any = Any, attempt_s: float | None = None) -> Any:
        path = self._following.path + path
        answer = await self._client.call("POST", path, body=body, kind=kind, attempt_s=attempt_s)
        self._backoff.succeeded()
        self._patience_ends = float("inf")
        return answer
