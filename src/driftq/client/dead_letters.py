"""Dead letters: which there are, what they say, sending them again, purging them; awaited and not.

A topic is always named by its own name, never by that of its dead-letter topic.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypedDict, Unpack
from urllib.parse import quote

from driftq.client.loop_thread import LoopThread
from driftq.client.wire.calls import Calls
from driftq.client.wire.encoding import Query
from driftq.model.wire.dlq import (
    DeadLetter,
    DeadLettersReply,
    DeadLetterTopic,
    DeadLetterTopicsReply,
    Purged,
    Redriven,
)


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


class AsyncDeadLetters:
    """The calls of `/v1/dlq`."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls

    async def messages(
        self, topic: str, *, limit: int | None = None, after: int | None = None
    ) -> list[DeadLetter]:
        """A page of the dead letters of a topic, by offset. Raises TopicNotFound where it never had one."""
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
        """Send dead letters again, to the group that gave them up; without a choice all that were not yet.

        `all_groups` sends them to every group. A call without an answer may have sent some of them, each
        once: repeat it. Raises TopicNotFound.
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
        """Remove dead letters for good; without a choice all of them. Raises TopicNotFound."""
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


class DeadLetters:
    """The calls of `/v1/dlq`."""

    def __init__(self, awaited: AsyncDeadLetters, thread: LoopThread) -> None:
        self._awaited = awaited
        self._thread = thread

    def messages(self, topic: str, *, limit: int | None = None, after: int | None = None) -> list[DeadLetter]:
        """A page of the dead letters of a topic, by offset. Raises TopicNotFound where it never had one."""
        return self._thread.run(self._awaited.messages(topic, limit=limit, after=after))

    def redrive(
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
        """Send dead letters again, to the group that gave them up; without a choice all that were not yet.

        `all_groups` sends them to every group. A call without an answer may have sent some of them, each
        once: repeat it. Raises TopicNotFound.
        """
        return self._thread.run(
            self._awaited.redrive(
                topic,
                offsets=offsets,
                dry_run=dry_run,
                rate_per_s=rate_per_s,
                all_groups=all_groups,
                by=by,
                **where,
            )
        )

    def purge(
        self,
        topic: str,
        *,
        offsets: Sequence[int] | None = None,
        dry_run: bool = False,
        **where: Unpack[DeadLetterFilter],
    ) -> Purged:
        """Remove dead letters for good; without a choice all of them. Raises TopicNotFound."""
        return self._thread.run(self._awaited.purge(topic, offsets=offsets, dry_run=dry_run, **where))

    def list(self) -> list[DeadLetterTopic]:
        """The topics that have, or had, dead letters."""
        return self._thread.run(self._awaited.list())


def _path(topic: str) -> str:
    return f"/v1/dlq/{quote(topic, safe='')}"


def _chosen(offsets: Sequence[int] | None, where: DeadLetterFilter, *, dry_run: bool) -> dict[str, Any]:
    body: dict[str, Any] = {"dry_run": dry_run}
    if offsets is not None:
        body["offsets"] = list(offsets)
    if where:
        body["filter"] = where
    return body
