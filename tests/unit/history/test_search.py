"""Finding messages: the index of sealed segments, the tail after it, and histories without an index."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from random import Random
from typing import Any

import pytest

from driftq.history import finding
from driftq.history.finding import MessageFilter, MessagePage, Search, slices_of
from driftq.history.search import first_kept
from driftq.history.writer import History
from driftq.housekeeping.round import run_round
from driftq.model import Envelope
from driftq.testing.disk import SimFolder
from tests.support.story import Story


@pytest.fixture
def story() -> Story:
    return Story(SimFolder(Random(1)))


@pytest.fixture
def history(tmp_path: Path) -> Path:
    return tmp_path / "history.db"


def seal(story: Story, history: Path) -> None:
    """A round over everything so far; the server would adopt its files, and here the segments stay."""
    story.log.roll()
    story.produce("t", "after the seal")
    run_round(story.folder, limits=story.limits, upto=story.log.sealed, projections=[History(str(history))])


def page(
    story: Story,
    history: Path | None,
    *,
    limit: int = 1_000,
    first: int = 0,
    end: int = 2**40,
    newest_first: bool = False,
    **more: Any,
) -> MessagePage:
    topic = story.state.topics["t"]
    search = Search(
        story.payloads,
        topic.id,
        slices_of(topic, None),
        MessageFilter(**more),
        limit=limit,
        newest_first=newest_first,
    )
    return search.run(None if history is None else str(history), first=first, end=end)


def found(story: Story, history: Path | None, **more: Any) -> list[int]:
    """The offsets of all pages."""
    offsets: list[int] = []
    while True:
        part = page(story, history, **more)
        offsets += [message.offset for message in part.messages]
        if part.more_after is None:
            return offsets
        more["end" if more.get("newest_first") else "first"] = (
            part.more_after if more.get("newest_first") else part.more_after + 1
        )


def rows(history: Path, where: str = "1") -> int:
    with closing(sqlite3.connect(history)) as database:
        return int(database.execute(f"SELECT count(*) FROM search WHERE {where}").fetchone()[0])


def change(history: Path, statement: str) -> None:
    with closing(sqlite3.connect(history)) as database:
        database.executescript(statement)


def fill(story: Story, count: int, *, key: str = "k", tenant: str | None = None) -> None:
    envelope = None if tenant is None else Envelope(tenant_id=tenant)
    for number in range(count):
        story.produce("t", str(number), key=f"{key}-{number % 3}", envelope=envelope)


def test_sealed_messages_come_from_the_index_and_new_ones_from_the_tail(story: Story, history: Path) -> None:
    story.topic("t", partitions=2)
    fill(story, 30, tenant="acme")
    seal(story, history)
    fill(story, 6, tenant="acme")
    assert found(story, history, key="k-1") == [*range(1, 30, 3), 32, 35]
    assert found(story, history, key="k-1", newest_first=True, limit=2) == [35, 32, *range(28, 0, -3)]
    assert found(story, history, tenant_id="acme") == [*range(30), *range(31, 37)]
    assert found(story, None, key="k-1") == [*range(1, 30, 3), 32, 35]
    # Without its rows the index finds only the tail: the sealed part is not read through.
    change(history, "DELETE FROM search")
    assert found(story, history, key="k-1") == [32, 35]


def test_rows_of_other_texts_with_the_same_hash_are_not_taken_for_it(
    story: Story, history: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from driftq.history import search

    monkeypatch.setattr(search, "search_hash", lambda text: 7)
    monkeypatch.setattr(finding, "search_hash", lambda text: 7)
    story.topic("t")
    fill(story, 9)
    seal(story, history)
    assert found(story, history, key="k-2") == [2, 5, 8]


@pytest.mark.clause("O6")
def test_a_history_of_an_older_release_is_read_through_where_it_has_no_index(
    story: Story, history: Path
) -> None:
    story.topic("t")
    fill(story, 9)
    seal(story, history)
    change(history, "DROP TABLE search; DROP TABLE search_extents; DROP TABLE search_progress")
    assert found(story, history, key="k-0") == [0, 3, 6]
    fill(story, 3)  # Offsets 10, 11, 12.
    seal(story, history)
    assert rows(history, '"offset" < 10') == 0
    assert rows(history) == 3
    assert found(story, history, key="k-0") == [0, 3, 6, 10]
    # The older release comes back for a round, and leaves a hole that the next round of this one closes.
    fill(story, 3)
    seal(story, history)
    change(history, "UPDATE search_progress SET segment = segment - 1")
    assert found(story, history, key="k-0") == [0, 3, 6, 10, 14]
    fill(story, 3)
    seal(story, history)
    assert rows(history) == 3
    assert found(story, history, key="k-0") == [0, 3, 6, 10, 14, 18]


def test_what_retention_drops_is_found_no_more_and_leaves_the_index(story: Story, history: Path) -> None:
    story.topic("t", retention_ms=1_000)
    fill(story, 30)
    seal(story, history)
    story.now += 5_000
    fill(story, 3)
    story.trim()
    assert first_kept(story.state.topics["t"]) == 31
    assert found(story, history, key="k-0") == [31]
    seal(story, history)
    assert rows(history) == 3


def test_one_call_reads_a_bounded_part_and_says_where_to_go_on(
    story: Story, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(finding, "READ_MESSAGES_MAX", 10)
    monkeypatch.setattr(finding, "_WINDOW", 8)
    story.topic("t", partitions=2)
    fill(story, 40)
    story.produce("t", "the one", key="rare")
    first = page(story, None, key="rare")
    assert (first.messages, first.more_after) == ([], 15)
    assert found(story, None, key="rare") == [40]
    assert found(story, None, key="k-1", newest_first=True) == list(range(37, 0, -3))
    assert found(story, None) == list(range(41))


def test_times_are_found_by_halves(story: Story) -> None:
    story.topic("t", partitions=2)
    began = story.now
    for number in range(50):
        story.produce("t", str(number), key=str(number))
        story.now += 10_000
    assert found(story, None, since=began + 200_000) == list(range(20, 50))
    assert found(story, None, until=began + 200_000) == list(range(20))
    assert found(story, None, since=began + 100_000, until=began + 120_000) == [10, 11]
    assert found(story, None, since=began + 10**9) == []
