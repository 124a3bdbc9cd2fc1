"""What looking at dead letters costs: those that are shown, redriven or filtered are read, and no others."""

import asyncio
import http.client
import json
from array import array
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from itertools import repeat
from pathlib import Path
from typing import Any

import pytest

from driftq.core.commands import Nack
from driftq.core.index import PartitionIndex
from driftq.core.state import Topic
from driftq.http.wire.edge import HttpOptions
from driftq.http.wire.server import HttpServer
from driftq.log.disk import OsFolder
from driftq.server.dlq.pages import LOOK_MAX
from driftq.server.requests import NackRequest
from driftq.storage.payloads import Payloads
from tests.support.direct import DirectClient, Listener, start

DEAD_LETTERS = 1_200
PARTITIONS = 3
IN_FLIGHT = 50


class Office:
    """A server in this process whose reads of stored messages are counted."""

    def __init__(self, client: DirectClient, server: HttpServer, monkeypatch: pytest.MonkeyPatch) -> None:
        self.client = client
        self._server = server
        self._reads = 0
        for name in ("fetch", "read"):
            monkeypatch.setattr(Payloads, name, self._counting(getattr(Payloads, name)))

    def _counting(self, read: Any) -> Any:
        def counted(payloads: Payloads, index: PartitionIndex, ordinals: Sequence[int]) -> Any:
            entries = read(payloads, index, ordinals)
            self._reads += len(entries) if entries is not None else 0
            return entries

        return counted

    async def call(self, method: str, path: str, body: Any = None) -> tuple[Any, int]:
        """The answer, and how many stored messages were read for it."""
        self._reads = 0
        answer = await asyncio.to_thread(self._call, method, path, body)
        return answer, self._reads

    def _call(self, method: str, path: str, body: Any) -> Any:
        connection = http.client.HTTPConnection("127.0.0.1", self._server.port, timeout=60)
        connection.request(method, path, json.dumps(body) if body is not None else None)
        response = connection.getresponse()
        content = json.loads(response.read())
        connection.close()
        assert response.status == 200, content
        return content


async def _give_up(client: DirectClient, line: dict[str, Any]) -> None:
    nack = Nack("w", line["partition"], line["offset"], "bad", retryable=False)
    await client.ask(lambda reply: client.engine.submit(NackRequest("t", "g", nack, reply)))


@asynccontextmanager
async def opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, dead_letters: int = DEAD_LETTERS
) -> AsyncIterator[Office]:
    """A topic with many dead letters, in the partitions as they came."""
    client = start(OsFolder(str(tmp_path)))
    await client.create("t", PARTITIONS)
    for key in ("k0", "k1", "k2", "k3", "k4", "k5"):
        await client.produce("t", *[f"value of {key}"] * (dead_letters // 6), key=key)
    listener = await client.join(Listener("t", "g", "w"))
    for given_up in range(0, dead_letters, IN_FLIGHT):
        together = min(IN_FLIGHT, dead_letters - given_up)
        lines = [await asyncio.wait_for(listener.got.get(), 30) for _ in range(together)]
        await asyncio.gather(*(_give_up(client, line) for line in lines))
    server = HttpServer()
    await server.start(client.broker, "127.0.0.1", 0, HttpOptions())
    yield Office(client, server, monkeypatch)
    await server.stop()


@pytest.mark.clause("D6")
async def test_each_letter_that_is_asked_for_is_read_and_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened(tmp_path, monkeypatch) as office:
        await _look(office)


async def _look(office: Office) -> None:
    first, reads = await office.call("GET", "/v1/dlq/t?limit=1")
    assert (len(first["messages"]), reads) == (1, 1)

    page, reads = await office.call("GET", "/v1/dlq/t?limit=300&after=99")
    assert [letter["offset"] for letter in page["messages"]] == list(range(100, 400))
    assert reads == 300

    whole, reads = await office.call("GET", f"/v1/dlq/t?limit={2 * DEAD_LETTERS}")
    assert [letter["offset"] for letter in whole["messages"]] == list(range(DEAD_LETTERS))
    assert {letter["partition"] for letter in whole["messages"]} == {0, 1, 2}
    assert reads == DEAD_LETTERS

    listed, reads = await office.call("GET", "/v1/dlq")
    assert (listed["dlqs"][0]["messages"], reads) == (DEAD_LETTERS, 1)

    named = {"offsets": [3, 5, 9_999]}
    filtered = named | {"filter": {"group": "g"}, "dry_run": True}
    answer, reads = await office.call("POST", "/v1/dlq/t/purge", filtered)
    assert (answer, reads) == ({"matched": 2, "purged": 0}, 2)
    answer, reads = await office.call("POST", "/v1/dlq/t/purge", named)
    assert (answer, reads) == ({"matched": 2, "purged": 2}, 0)
    answer, reads = await office.call("POST", "/v1/dlq/t/redrive", {"offsets": [3, 4, 6]})
    assert answer == {"matched": 2, "redriven": 2, "skipped": []}
    assert reads <= 2 * 4, "a letter is looked for, and read, in one turn"

    left, reads = await office.call("POST", "/v1/dlq/t/purge", {})
    assert (left, reads) == ({"matched": DEAD_LETTERS - 2, "purged": DEAD_LETTERS - 2}, 0)
    listed, reads = await office.call("GET", "/v1/dlq")
    assert (listed["dlqs"], reads) == (
        [{"topic": "t", "dlq_topic": "dlq.t", "messages": 0, "oldest_at": None}],
        0,
    )
    assert (await office.call("GET", "/v1/dlq/t"))[0] == {"messages": []}


@pytest.mark.clause("D6")
async def test_letters_behind_many_purged_ones_are_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert LOOK_MAX > DEAD_LETTERS
    monkeypatch.setattr("driftq.server.dlq.pages.LOOK_MAX", 100)
    async with opened(tmp_path, monkeypatch) as office:
        await office.call("POST", "/v1/dlq/t/purge", {"offsets": list(range(DEAD_LETTERS - 1))})
        page, reads = await office.call("GET", "/v1/dlq/t?limit=5")
        assert ([letter["offset"] for letter in page["messages"]], reads) == ([DEAD_LETTERS - 1], 1)
        listed, _ = await office.call("GET", "/v1/dlq")
        assert listed["dlqs"][0]["oldest_at"] is not None
        assert (await office.call("POST", "/v1/dlq/t/redrive", {}))[0]["redriven"] == 1


class CountedOffsets(array):
    """The offsets of an index, which count how many of them are looked at."""

    looks = 0

    def __getitem__(self, at: Any) -> Any:
        CountedOffsets.looks += 1
        return super().__getitem__(at)


def grow(topic: Topic, count: int) -> range:
    """More dead letters in the index, each with the stored form of a real one of its partition."""
    added = range(topic.next_offset, topic.next_offset + count)
    for number, part in enumerate(topic.partitions):
        chunk = part.index.chunks[-1]
        offsets = added[number::PARTITIONS]
        places = repeat(chunk.places[-1], len(offsets))
        part.index.add_run(chunk.segment, offsets=offsets, places=places, sizes=[1] * len(offsets))
        chunk.offsets = CountedOffsets("Q", chunk.offsets)
    topic.next_offset = added.stop
    return added


async def _costs(office: Office, offsets: range) -> dict[str, tuple[int, int]]:
    """How many messages are read, and how many offsets looked at, for calls that name the same number."""
    middle = offsets[len(offsets) // 2]
    costs: dict[str, tuple[int, int]] = {}

    async def call(what: str, method: str, path: str, body: Any = None) -> Any:
        CountedOffsets.looks = 0
        answer, reads = await office.call(method, path, body)
        costs[what] = (reads, CountedOffsets.looks)
        return answer

    listed = await call("list", "GET", "/v1/dlq")
    assert listed["dlqs"][0]["messages"] > len(offsets)
    page = await call("page", "GET", f"/v1/dlq/t?limit=100&after={middle}")
    assert [found["offset"] for found in page["messages"]] == list(range(middle + 1, middle + 101))
    named = {"offsets": [middle, middle + 1, middle + 2]}
    assert (await call("redrive", "POST", "/v1/dlq/t/redrive", named))["redriven"] == 3
    assert (await call("purge", "POST", "/v1/dlq/t/purge", named))["purged"] == 3
    return costs


@pytest.mark.clause("D6")
async def test_a_page_of_a_million_dead_letters_costs_a_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A thousand times as many cost the same reads, and two more steps of each search, not of a scan."""
    few, many = 1_000, 1_000_000
    async with opened(tmp_path, monkeypatch, dead_letters=6) as office:
        topic = office.client.engine.state.topics["dlq.t"]
        small = await _costs(office, grow(topic, few))
        large = await _costs(office, grow(topic, many))
    for what, (reads, looks) in small.items():
        assert large[what][0] == reads, what
        assert large[what][1] <= 3 * looks < few, what
