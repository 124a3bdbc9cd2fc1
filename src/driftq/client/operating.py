"""Calls for operators: find stored messages, show and resolve claims, show and report pipelines."""

from __future__ import annotations

import datetime as dt
from collections.abc import AsyncIterator
from typing import Literal
from urllib.parse import quote

from driftq.client.wire.calls import Calls
from driftq.model.time import microseconds, rfc3339
from driftq.model.wire.messages import MessagesReply, RecordedMessage
from driftq.model.wire.pipelines import (
    ClaimsReply,
    ClaimStateName,
    ClaimView,
    PipelineReport,
    PipelinesReply,
    PipelineView,
)
from driftq.transport.paths import Query, topic_path

Instant = dt.datetime | str
"""A datetime with a time zone, or RFC 3339 text."""


class AsyncMessageSearch:
    """`GET /v1/topics/{topic}/messages`."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls

    async def page(
        self,
        topic: str,
        *,
        key: str | None = None,
        run_id: str | None = None,
        tenant_id: str | None = None,
        since: Instant | None = None,
        until: Instant | None = None,
        offset: int | None = None,
        partition: int | None = None,
        order: Literal["oldest", "newest"] = "oldest",
        limit: int | None = None,
        after: int | None = None,
    ) -> MessagesReply:
        """A page of the messages that fit, by offset; `next` is the `after` of the next page.

        A page may be short, or empty, and still have a `next`. Raises TopicNotFound.
        """
        query: Query = {
            "key": key,
            "run_id": run_id,
            "tenant_id": tenant_id,
            "since": _text(since),
            "until": _text(until),
            "offset": offset,
            "partition": partition,
            "order": None if order == "oldest" else order,
            "limit": limit,
            "after": after,
        }
        page: MessagesReply = await self._calls.call(
            "GET", topic_path(topic, "/messages"), query=query, repeatable=True, kind=MessagesReply
        )
        return page

    async def find(
        self,
        topic: str,
        *,
        key: str | None = None,
        run_id: str | None = None,
        tenant_id: str | None = None,
        since: Instant | None = None,
        until: Instant | None = None,
        partition: int | None = None,
        order: Literal["oldest", "newest"] = "oldest",
    ) -> AsyncIterator[RecordedMessage]:
        """All messages that fit, by offset, page by page. Raises TopicNotFound."""
        after: int | None = None
        while True:
            page = await self.page(
                topic,
                key=key,
                run_id=run_id,
                tenant_id=tenant_id,
                since=since,
                until=until,
                partition=partition,
                order=order,
                after=after,
            )
            for message in page.messages:
                yield message
            after = page.next
            if after is None:
                return


class AsyncRegistryCalls:
    """The calls of `/v1/registry`: the claims of the pipeline's handlers."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls

    async def page(
        self,
        *,
        state: ClaimStateName | None = None,
        handler: str | None = None,
        limit: int | None = None,
        after: str | None = None,
    ) -> ClaimsReply:
        """A page of claims; without a state, those that are not finished."""
        query: Query = {"state": state, "handler": handler, "limit": limit, "after": after}
        page: ClaimsReply = await self._calls.call(
            "GET", "/v1/registry", query=query, repeatable=True, kind=ClaimsReply
        )
        return page

    async def find(
        self, *, state: ClaimStateName | None = None, handler: str | None = None
    ) -> AsyncIterator[ClaimView]:
        """All claims that fit, page by page."""
        after: str | None = None
        while True:
            page = await self.page(state=state, handler=handler, after=after)
            for claim in page.claims:
                yield claim
            after = page.next
            if after is None:
                return

    async def resolve(
        self,
        handler: str,
        event_id: str,
        *,
        outcome: Literal["done", "retry", "dead"],
        by: str | None = None,
    ) -> None:
        """Record the outcome of an unknown effect, or retry a dead claim.

        Raises ClaimNotFound, and WrongClaimState when the claim does not wait for this. A repeated call after
        a lost response raises WrongClaimState too.
        """
        body = {"handler": handler, "event_id": event_id, "as": outcome}
        if by is not None:
            body["by"] = by
        await self._calls.call("POST", "/v1/registry/resolve", body=body, repeatable=False)


class AsyncPipelines:
    """The calls of `/v1/pipelines`."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls

    async def report(self, name: str, report: PipelineReport) -> None:
        """Report the progress of a job; the server keeps the newest report of each."""
        path = f"/v1/pipelines/{quote(name, safe='')}/progress"
        await self._calls.call("POST", path, body=report, repeatable=True)

    async def list(self) -> list[PipelineView]:
        """The jobs that have reported, by name."""
        found: list[PipelineView] = []
        after: str | None = None
        while True:
            page: PipelinesReply = await self._calls.call(
                "GET", "/v1/pipelines", query={"after": after}, repeatable=True, kind=PipelinesReply
            )
            found += page.pipelines
            after = page.next
            if after is None:
                return found


def _text(instant: Instant | None) -> str | None:
    return rfc3339(microseconds(instant) // 1000) if isinstance(instant, dt.datetime) else instant
