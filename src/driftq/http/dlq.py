"""Dead letters: which there are, what they say, sending them again, purging them.

Letters are found by reading them, off the loop, in pages; what was found is then asked of the engine in small
requests, at the rate that was asked for. A redrive that is cut short has sent each letter once or not at all.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from functools import partial
from typing import Any

import msgspec

from driftq.core.index import PartitionIndex
from driftq.core.state import State, Topic
from driftq.errors import DriftQError, LogCorrupt, TopicNotFound
from driftq.http.dlq_schemas import DlqQuery, DlqView, LetterFilter, LetterView, PurgeBody, RedriveBody
from driftq.http.exchange import Exchange
from driftq.http.params import Form
from driftq.http.schemas import Request
from driftq.model import StoredMessage
from driftq.model.topic import DEAD_LETTER_PREFIX
from driftq.server.deadletters import rfc3339
from driftq.server.entry import decode_entry, produced_at
from driftq.server.letters import TOGETHER_MAX, LetterAsk, PurgeRequest, RedriveRequest
from driftq.server.requests import ReadRequest

NOTHING = Form(Request)
DLQ = Form(DlqQuery)
REDRIVE = Form(RedriveBody)
PURGE = Form(PurgeBody)
_PAGE = 256
_LIMIT = 1_000


class Letter(msgspec.Struct, frozen=True):
    """One dead letter as it lies in its topic."""

    partition: int
    offset: int
    stored: StoredMessage
    redriven_at: int | None


def list_dlqs(exchange: Exchange) -> None:
    NOTHING.read(exchange.body, exchange.query)
    exchange.edge.spawn(exchange, _list_dlqs(exchange))


def show_dlq(exchange: Exchange) -> None:
    asked = DLQ.read(exchange.body, exchange.query)
    exchange.edge.spawn(exchange, _show_dlq(exchange, asked))


def redrive(exchange: Exchange) -> None:
    asked = REDRIVE.read(exchange.body, exchange.query)
    exchange.edge.spawn(exchange, _redrive(exchange, asked))


def purge(exchange: Exchange) -> None:
    asked = PURGE.read(exchange.body, exchange.query)
    exchange.edge.spawn(exchange, _purge(exchange, asked))


async def _read(exchange: Exchange, query: Any) -> Any:
    """An answer from durable state."""
    answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
    exchange.edge.engine.read(ReadRequest(query, answer.set_result))
    return await _result(answer)


async def _result(answer: asyncio.Future[Any]) -> Any:
    result = await answer
    if isinstance(result, DriftQError):
        raise result
    return result


async def _ask(exchange: Exchange, make: Any) -> list[int]:
    answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
    request: LetterAsk = make(answer.set_result)
    exchange.edge.engine.ask_desk(request)
    done: list[int] = await _result(answer)
    return done


async def _entries(exchange: Exchange, index: PartitionIndex, ordinals: range) -> list[bytes]:
    payloads = exchange.edge.engine.payloads
    entries = payloads.fetch(index, ordinals)
    return entries if entries is not None else await asyncio.to_thread(payloads.read, index, ordinals)


def _grave(state: State, name: str) -> Topic:
    grave = state.topics.get(DEAD_LETTER_PREFIX + name)
    if grave is None:
        raise TopicNotFound(DEAD_LETTER_PREFIX + name)
    return grave


async def _letters(exchange: Exchange, name: str, *, after: int = -1) -> AsyncIterator[Letter]:
    """The letters of a topic that are not purged, by partition and offset."""
    stretches: list[tuple[int, PartitionIndex, range]] = await _read(
        exchange,
        lambda state: [
            (number, part.index, range(part.index.first_ordinal_from(after + 1), part.index.end))
            for number, part in enumerate(_grave(state, name).partitions)
        ],
    )
    for number, index, ordinals in stretches:
        for start in range(ordinals.start, ordinals.stop, _PAGE):
            page = range(start, min(start + _PAGE, ordinals.stop))
            entries = await _entries(exchange, index, page)
            grave = _grave(exchange.edge.engine.state, name)
            for ordinal, entry in zip(page, entries, strict=True):
                offset = index.offset_at(ordinal)
                if offset not in grave.purged:
                    sent = grave.redriven.get(offset)
                    yield Letter(number, offset, decode_entry(entry), sent[0] if sent else None)


def _matches(letter: Letter, wanted: LetterFilter | None) -> bool:
    if wanted is None:
        return True
    envelope = letter.stored.envelope
    facts = envelope.dlq if envelope is not None else None
    found = {
        "partition": letter.partition,
        "key": letter.stored.key,
        "group": facts.group if facts else None,
        "reason": facts.reason if facts else None,
        "run_id": envelope.run_id if envelope else None,
        "tenant_id": envelope.tenant_id if envelope else None,
    }
    for name, value in found.items():
        asked = getattr(wanted, name)
        if asked is not None and asked != value:
            return False
    if wanted.last_error is not None and wanted.last_error not in (facts.last_error if facts else ""):
        return False
    at = facts.at if facts else ""
    return (wanted.since is None or at >= wanted.since) and (wanted.until is None or at < wanted.until)


async def _list_dlqs(exchange: Exchange) -> None:
    def query(state: State) -> list[Topic]:
        return [topic for name, topic in sorted(state.topics.items()) if name.startswith(DEAD_LETTER_PREFIX)]

    views: list[DlqView] = []
    for grave in await _read(exchange, query):
        kept = sum(part.index.end - part.index.first for part in grave.partitions) - len(grave.purged)
        oldest: list[int] = []
        for part in grave.partitions:
            for ordinal in range(part.index.first, part.index.end):
                if part.index.offset_at(ordinal) not in grave.purged:
                    [entry] = await _entries(exchange, part.index, range(ordinal, ordinal + 1))
                    oldest.append(produced_at(entry))
                    break
        views.append(
            DlqView(
                topic=grave.name.removeprefix(DEAD_LETTER_PREFIX),
                dlq_topic=grave.name,
                messages=kept,
                oldest_at=rfc3339(min(oldest)) if oldest else None,
            )
        )
    exchange.reply_json({"dlqs": views})


async def _show_dlq(exchange: Exchange, asked: DlqQuery) -> None:
    limit = asked.limit or _LIMIT
    after = -1 if asked.after is None else asked.after
    letters = [letter async for letter in _letters(exchange, exchange.topic, after=after)]
    letters.sort(key=lambda letter: letter.offset)
    views = [
        LetterView(
            partition=letter.partition,
            offset=letter.offset,
            key=letter.stored.key,
            value=letter.stored.value,
            envelope=letter.stored.envelope,
            redriven_at=rfc3339(letter.redriven_at) if letter.redriven_at is not None else None,
        )
        for letter in letters[:limit]
    ]
    exchange.reply_json({"messages": views})


async def _matched(
    exchange: Exchange, *, offsets: list[int] | None, wanted: LetterFilter | None, redriven: bool
) -> list[int]:
    """The offsets that a selection means; without `redriven`, those that were sent before are left out."""
    chosen = None if offsets is None else set(offsets)
    try:
        found = [
            letter.offset
            async for letter in _letters(exchange, exchange.topic)
            if (chosen is None or letter.offset in chosen)
            and (redriven or letter.redriven_at is None)
            and _matches(letter, wanted)
        ]
    except LogCorrupt as damage:
        exchange.edge.engine.damaged(damage)
        raise
    return sorted(found)


async def _redrive(exchange: Exchange, asked: RedriveBody) -> None:
    matched = await _matched(exchange, offsets=asked.offsets, wanted=asked.filter, redriven=False)
    sent = 0
    if not asked.dry_run:
        rate = asked.rate_per_s
        together = min(TOGETHER_MAX, max(1, rate // 10)) if rate else TOGETHER_MAX
        for start in range(0, len(matched), together):
            mine = matched[start : start + together]
            make = partial(RedriveRequest, exchange.topic, mine, asked.by or "", asked.all_groups is True)
            sent += len(await _ask(exchange, make))
            if rate and start + together < len(matched):
                await asyncio.sleep(len(mine) / rate)
    exchange.reply_json({"matched": len(matched), "redriven": sent})


async def _purge(exchange: Exchange, asked: PurgeBody) -> None:
    matched = await _matched(exchange, offsets=asked.offsets, wanted=asked.filter, redriven=True)
    gone = 0
    if not asked.dry_run:
        for start in range(0, len(matched), _LIMIT):
            mine = matched[start : start + _LIMIT]
            gone += len(await _ask(exchange, partial(PurgeRequest, exchange.topic, mine)))
    exchange.reply_json({"matched": len(matched), "purged": gone})
