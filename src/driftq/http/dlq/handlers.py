"""Dead letters: list them, show them, redrive and purge them.

Handlers find dead letters in the index where that is enough, and read only those that they show or filter.
A redrive or purge goes to the engine in small requests, a redrive at the client's rate. An interrupted
redrive has sent each dead letter once or not at all.
"""

from __future__ import annotations

import asyncio
from array import array
from collections.abc import AsyncIterator, Sequence
from functools import partial
from typing import Any

import msgspec

from driftq.core.decide.dead_letters import GROUP_DELETED
from driftq.core.state import State, Topic
from driftq.errors import DeadLetterGroupGone
from driftq.http.api.params import Form
from driftq.http.pacing import in_parts
from driftq.http.reads import ask_state, read_stored, result_of, walk_state
from driftq.http.wire.exchange import Exchange
from driftq.model import StoredMessage
from driftq.model.time import rfc3339
from driftq.model.topic import DEAD_LETTER_PREFIX
from driftq.model.wire.dlq import (
    DeadLetter,
    DeadLetterMatch,
    DeadLettersReply,
    DeadLetterTopic,
    DeadLetterTopicsReply,
    DlqQuery,
    PurgeBody,
    Purged,
    RedriveBody,
    Redriven,
    SkippedLetter,
)
from driftq.model.wire.fields import Request
from driftq.server.dlq.pages import (
    DeadLetterPage,
    DeadLetterRef,
    dead_letter_page,
    dlq_topic_of,
    handlers_page,
    named_dead_letters,
    walk_dlq_topics,
)
from driftq.server.dlq.stage import (
    TOGETHER_MAX,
    PurgeRequest,
    RedriveOutcome,
    RedriveRequest,
    Skipped,
)
from driftq.server.walk import batches
from driftq.storage.entry import decode_entry, produced_at
from driftq.storage.payloads import EntriesGone

NOTHING = Form(Request)
DLQ = Form(DlqQuery)
REDRIVE = Form(RedriveBody)
PURGE = Form(PurgeBody)
_PAGE = 256
_LIMIT = 1_000
_SKIPPED_MAX = 100


class StoredDeadLetter(msgspec.Struct, frozen=True):
    """One dead letter as it is stored in its topic."""

    partition: int
    offset: int
    stored: StoredMessage
    redriven_at: int | None


def list_dlqs(exchange: Exchange) -> None:
    NOTHING.read(exchange.body, exchange.query)
    exchange.edge.spawn(exchange, _list_dlqs(exchange))


def show_dlq(exchange: Exchange) -> None:
    params = DLQ.read(exchange.body, exchange.query)
    exchange.edge.spawn(exchange, _show_dlq(exchange, params))


def redrive(exchange: Exchange) -> None:
    params = REDRIVE.read(exchange.body, exchange.query)
    exchange.edge.spawn(exchange, _redrive(exchange, params))


def purge(exchange: Exchange) -> None:
    params = PURGE.read(exchange.body, exchange.query)
    exchange.edge.spawn(exchange, _purge(exchange, params))


async def _ask(exchange: Exchange, make: Any) -> Any:
    answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
    exchange.edge.engine.submit(make(answer.set_result))
    return await result_of(answer)


async def _entries(
    exchange: Exchange, topic: Topic, refs: Sequence[DeadLetterRef]
) -> dict[DeadLetterRef, bytes]:
    """The stored forms of these dead letters, without those that were dropped meanwhile."""
    found: dict[DeadLetterRef, bytes] = {}
    for number in sorted({ref.partition for ref in refs}):
        index = topic.partitions[number].index
        while kept := [ref for ref in refs if ref.partition == number and ref.ordinal >= index.first]:
            try:
                entries = await read_stored(exchange.edge, index, [ref.ordinal for ref in kept])
            except EntriesGone:
                continue
            found.update(zip(kept, entries, strict=True))
            break
    return found


async def _dead_letters(
    exchange: Exchange, topic: Topic, refs: Sequence[DeadLetterRef]
) -> list[StoredDeadLetter]:
    """These dead letters, by offset."""
    found: list[StoredDeadLetter] = []
    for ref, entry in sorted((await _entries(exchange, topic, refs)).items()):
        found.append(StoredDeadLetter(ref.partition, ref.offset, decode_entry(entry), ref.redriven_at))
    return found


async def _pages(
    exchange: Exchange, name: str, *, after: int = -1, limit: int | None = None, handlers: bool = False
) -> AsyncIterator[tuple[Topic, list[DeadLetterRef]]]:
    """The dead letters of a topic after an offset, in chunks, found in the index without a read."""
    behind, left, more = after, limit, True

    def query(state: State) -> tuple[Topic, list[DeadLetterRef], int | None]:
        topic = dlq_topic_of(state, name)
        most = _PAGE if left is None else min(left, _PAGE)
        if handlers:
            page = handlers_page(state, topic, after=behind, limit=most)
        else:
            page = dead_letter_page(topic, after=behind, limit=most)
        return topic, page.refs, page.more_after

    while more and left != 0:
        topic, refs, more_after = await ask_state(exchange, query)
        left = None if left is None else left - len(refs)
        more, behind = more_after is not None, more_after or 0
        yield topic, refs


def _matches(dead_letter: StoredDeadLetter, wanted: DeadLetterMatch) -> bool:
    envelope = dead_letter.stored.envelope
    facts = envelope.dlq if envelope is not None else None
    found = {
        "partition": dead_letter.partition,
        "key": dead_letter.stored.key,
        "group": facts.group if facts else None,
        "reason": facts.reason if facts else None,
        "run_id": envelope.run_id if envelope else None,
        "tenant_id": envelope.tenant_id if envelope else None,
        "kind": (facts.kind or "group") if facts else None,
        "id": facts.id if facts else None,
        "stage": facts.stage if facts else None,
        "event_id": facts.event_id if facts else None,
    }
    for name, value in found.items():
        expected = getattr(wanted, name)
        if expected is not None and expected != value:
            return False
    if wanted.last_error is not None and wanted.last_error not in (facts.last_error if facts else ""):
        return False
    at = facts.at if facts else ""
    return (wanted.since is None or at >= wanted.since) and (wanted.until is None or at < wanted.until)


async def _list_dlqs(exchange: Exchange) -> None:
    def is_shown(name: str) -> bool:
        origin = name.removeprefix(DEAD_LETTER_PREFIX)
        return origin != name and exchange.shows(origin, stored_in=name)

    views: list[DeadLetterTopic] = []
    for topic, messages in await walk_state(exchange.edge, partial(walk_dlq_topics, shown=is_shown)):
        name = topic.name.removeprefix(DEAD_LETTER_PREFIX)
        oldest = await _oldest_at(exchange, topic) if messages else None
        views.append(DeadLetterTopic(topic=name, dlq_topic=topic.name, messages=messages, oldest_at=oldest))
    exchange.reply_json(DeadLetterTopicsReply(views))


async def _oldest_at(exchange: Exchange, topic: Topic) -> str | None:
    """When the dead letter with the lowest offset was written."""
    after: int | None = -1
    while after is not None:
        refs, after = await ask_state(exchange, partial(_first_behind, topic, after))
        for entry in (await _entries(exchange, topic, refs)).values():
            return rfc3339(produced_at(entry))
    return None


def _first_behind(topic: Topic, after: int, _state: State) -> DeadLetterPage:
    return dead_letter_page(topic, after=after, limit=1)


async def _show_dlq(exchange: Exchange, query: DlqQuery) -> None:
    after = -1 if query.after is None else query.after
    views: list[DeadLetter] = []
    limit, handlers = query.limit or _LIMIT, query.handlers is True
    async for topic, refs in _pages(exchange, exchange.topic, after=after, limit=limit, handlers=handlers):
        views += [
            DeadLetter(
                partition=found.partition,
                offset=found.offset,
                key=found.stored.key,
                value=found.stored.value,
                envelope=found.stored.envelope,
                redriven_at=rfc3339(found.redriven_at) if found.redriven_at is not None else None,
                headers=found.stored.headers,
            )
            for found in await _dead_letters(exchange, topic, refs)
        ]
    exchange.reply_json(DeadLettersReply(views))


async def _chosen(
    exchange: Exchange, offsets: list[int] | None
) -> AsyncIterator[tuple[Topic, list[DeadLetterRef]]]:
    """The dead letters that the request names, or all of them, in chunks."""
    if offsets is None:
        async for topic, refs in _pages(exchange, exchange.topic):
            yield topic, refs
        return

    for some in batches(sorted(set(offsets)), _PAGE) if offsets else [[]]:
        yield await ask_state(exchange, partial(_named, exchange.topic, some))


def _named(name: str, offsets: list[int], state: State) -> tuple[Topic, list[DeadLetterRef]]:
    topic = dlq_topic_of(state, name)
    return topic, named_dead_letters(topic, offsets)


async def _matched(
    exchange: Exchange, *, offsets: list[int] | None, wanted: DeadLetterMatch | None, redriven: bool
) -> array[int]:
    """The offsets that a request selects, in order; without `redriven`, not those redriven before.

    There may be a million: an array of numbers is freed at once, a list of objects one by one.
    """
    found = array("Q")
    async for topic, refs in _chosen(exchange, offsets):
        fresh = [ref for ref in refs if redriven or ref.redriven_at is None]
        if wanted is None:
            found.extend(ref.offset for ref in fresh)
        else:
            stored = await _dead_letters(exchange, topic, fresh)
            found.extend(dead_letter.offset for dead_letter in stored if _matches(dead_letter, wanted))
    return found  # Pages follow each other by offset.


async def _redrive(exchange: Exchange, body: RedriveBody) -> None:
    matched = await _matched(exchange, offsets=body.offsets, wanted=body.filter, redriven=False)
    rate = None if body.dry_run else body.rate_per_s
    sent = 0
    skipped: list[Skipped] = []
    groups: dict[str, None] = {}
    async for part in in_parts(matched, together=TOGETHER_MAX, rate_per_s=rate):
        make = partial(
            RedriveRequest,
            exchange.topic,
            list(part),
            body.by or "",
            body.all_groups is True,
            dry_run=body.dry_run is True,
        )
        done: RedriveOutcome = await _ask(exchange, make)
        sent += len(done.sent)
        skipped += done.skipped[: _SKIPPED_MAX - len(skipped)]
        groups.update((skip.group or "", None) for skip in done.skipped if skip.reason == GROUP_DELETED)
    if groups and not sent and not body.dry_run:
        raise DeadLetterGroupGone(exchange.topic, group=next(iter(groups)), others=len(groups) - 1)
    views = [SkippedLetter(skip.offset, skip.reason, skip.group, skip.command) for skip in skipped]
    exchange.reply_json(Redriven(matched=len(matched), redriven=sent, skipped=views))


async def _purge(exchange: Exchange, body: PurgeBody) -> None:
    matched = await _matched(exchange, offsets=body.offsets, wanted=body.filter, redriven=True)
    gone = 0
    if not body.dry_run:
        for start in range(0, len(matched), _LIMIT):
            part = matched[start : start + _LIMIT].tolist()
            gone += len(await _ask(exchange, partial(PurgeRequest, exchange.topic, part)))
    exchange.reply_json(Purged(len(matched), gone))
