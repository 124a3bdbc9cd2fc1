"""Dead letters: list them, redrive them, purge them.

A topic is always named by its own name, never by that of its dead-letter topic.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypedDict, Unpack
from urllib.parse import quote

from driftq.client.wire.calls import Calls
from driftq.model.wire.dlq import (
    DeadLetter,
    DeadLettersReply,
    DeadLetterTopic,
    DeadLetterTopicsReply,
    Purged,
    Redriven,
)
from driftq.transport.paths import Query


class DeadLetterFilter(TypedDict, total=False):
    """Which dead letters are meant: those of which all of this is true."""

    group: str
    reason: str
    partition: int
    key: str
    run_id: str
    tenant_id: str
    last_error: str
    """A part of the text."""
    since: str
    """RFC 3339; `until` is not included."""
    until: str
    kind: str
    """`group`, `worker`, `projection` or `publisher`; their names are in `group`."""
    id: str
    stage: str
    event_id: str


class AsyncDeadLetters:
    """The calls of `/v1/dlq`."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls

    async def messages(
        self, topic: str, *, limit: int | None = None, after: int | None = None
    ) -> list[DeadLetter]:
        """A page of a topic's dead letters, by offset. Raises TopicNotFound if it never had one."""
        query: Query = {"limit": limit, "after": after}
        path = _path(topic)
        found: DeadLettersReply = await self._calls.call(
            "GET", path, query=query, repeatable=True, kind=DeadLettersReply
        )
        return found.messages

    async def redrive(
        self,
        topic: str,
        *,
        offsets: Sequence[int] | None = None,
        dry_run: bool = False,
        rate_per_s: int | None = None,
        all_groups: bool = False,
        by: str | None = None,
        **where: Unpack[DeadLetterFilter],
    ) -> Redriven:
        """Redrive dead letters to the group that gave them up; without a filter all that were not redriven.

        `all_groups` redrives them to every group. When the response is lost, some may have been redriven,
        each once: repeat the call. Raises TopicNotFound.
        """
        body = _chosen(offsets, where, dry_run=dry_run)
        body.update({"all_groups": True} if all_groups else {})
        body.update({"by": by} if by is not None else {})
        within_s = self._calls.options.timeout_s
        if rate_per_s is not None and not dry_run:
            planned = await self.redrive(topic, offsets=offsets, dry_run=True, **where)
            within_s += planned.matched / rate_per_s
            body["rate_per_s"] = rate_per_s
        done: Redriven = await self._change(topic, "redrive", body, Redriven, within_s=within_s)
        return done

    async def purge(
        self,
        topic: str,
        *,
        offsets: Sequence[int] | None = None,
        dry_run: bool = False,
        **where: Unpack[DeadLetterFilter],
    ) -> Purged:
        """Delete dead letters; without a filter all of them. Raises TopicNotFound."""
        body = _chosen(offsets, where, dry_run=dry_run)
        within_s = self._calls.options.timeout_s
        gone: Purged = await self._change(topic, "purge", body, Purged, within_s=within_s)
        return gone

    async def _change(
        self, topic: str, what: str, body: dict[str, Any], kind: Any, *, within_s: float
    ) -> Any:
        path = f"{_path(topic)}/{what}"
        return await self._calls.call(
            "POST", path, body=body, repeatable=False, kind=kind, attempt_s=within_s
        )

    async def list(self) -> list[DeadLetterTopic]:
        """The topics that have, or had, dead letters."""
        found: DeadLetterTopicsReply = await self._calls.call(
            "GET", "/v1/dlq", repeatable=True, kind=DeadLetterTopicsReply
        )
        return found.dlqs


def _path(topic: str) -> str:
    return f"/v1/dlq/{quote(topic, safe='')}"


def _chosen(offsets: Sequence[int] | None, where: DeadLetterFilter, *, dry_run: bool) -> dict[str, Any]:
    body: dict[str, Any] = {"dry_run": dry_run}
    if offsets is not None:
        body["offsets"] = list(offsets)
    if where:
        body["filter"] = where
    return body
