"""Topics as Parquet tables: complete, in order, without doubles, whenever the work is cut off."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import chain, count
from pathlib import Path
from typing import Any

import pytest
from pyarrow import parquet

from driftq.housekeeping.round import run_round
from driftq.log.disk import OsFolder
from driftq.model import Envelope
from driftq.tables import folder as table_folder
from driftq.tables import writer as table_writer
from driftq.tables.reader import read_table, table_files
from driftq.tables.writer import Tables
from tests.support.story import Story


@pytest.fixture
def story(tmp_path: Path) -> Story:
    made = Story(OsFolder(tmp_path / "log"), segment_records=6)
    made.topic("events.order", 2, table=True)
    made.topic("plain")
    return made


def round_of(story: Story, tmp_path: Path) -> None:
    projections = [Tables(str(tmp_path / "tables"), story.folder)]
    run_round(story.folder, limits=story.limits, upto=story.log.sealed, projections=projections)


def rows(tmp_path: Path, topic: str = "events.order") -> list[dict[str, object]]:
    found: list[dict[str, object]] = []
    for file in table_files(str(tmp_path / "tables" / topic)):
        found += parquet.read_table(file).to_pylist()
    return found


def listed(tmp_path: Path, topic: str = "events.order") -> list[int]:
    """What a reader finds who knows nothing of manifests and lists the folder."""
    files = sorted((tmp_path / "tables" / topic / "current").glob("*.parquet"))
    found = [parquet.read_table(file, columns=["sequence_number"]).column(0).to_pylist() for file in files]
    return sorted(chain.from_iterable(found))


def produce(story: Story, first: int, count: int) -> None:
    for number in range(first, first + count):
        event = {
            "event_id": f"e{number}",
            "aggregate_type": "order",
            "aggregate_id": f"a{number % 5}",
            "sequence_number": number,
        }
        story.now += 10
        story.produce(
            "events.order",
            json.dumps(event),
            key=f"a{number % 5}",
            envelope=Envelope(run_id="r1", step_id=f"s{number}", tenant_id="acme"),
        )
        story.produce("plain", "not a table")


def seal(story: Story) -> None:
    story.log.roll()
    story.produce("plain", "behind the seal")


@pytest.mark.clause("Z3", "S8")
def test_every_message_is_a_row_once_and_in_the_order_of_its_partition(story: Story, tmp_path: Path) -> None:
    for start in range(0, 60, 12):
        produce(story, start, 12)
        seal(story)
        round_of(story, tmp_path)
    found = rows(tmp_path)
    assert sorted(row["sequence_number"] for row in found) == list(range(60))  # type: ignore[type-var]
    for partition in (0, 1):
        offsets = [row["offset"] for row in found if row["partition"] == partition]
        assert offsets == sorted(offsets)  # type: ignore[type-var]
        assert offsets
    row = found[0]
    assert (row["topic"], row["run_id"], row["tenant_id"]) == ("events.order", "r1", "acme")
    assert row["aggregate_id"] == row["key"]
    assert json.loads(str(row["value"]))["event_id"] == row["event_id"]
    assert json.loads(str(row["envelope"]))["step_id"] == row["step_id"]
    assert row["timestamp"].timestamp() * 1000 <= story.now  # type: ignore[attr-defined]
    assert not (tmp_path / "tables" / "plain").exists()


@pytest.mark.clause("Z3")
def test_many_small_files_become_one(story: Story, tmp_path: Path) -> None:
    for start in range(0, 200, 10):
        produce(story, start, 10)
        seal(story)
        round_of(story, tmp_path)
    manifest = read_table(str(tmp_path / "tables" / "events.order"))
    assert manifest is not None
    assert len(manifest.files) < 20
    assert sorted(row["sequence_number"] for row in rows(tmp_path)) == list(range(200))  # type: ignore[type-var]
    assert len(listed(tmp_path)) == 200


class Killed(BaseException):
    """The process ended here."""


@contextmanager
def killed_at(step: int, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Everything that changes a folder works `step` times, and then never again."""
    left = step

    def mortal(work: Callable[..., Any]) -> Callable[..., Any]:
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            nonlocal left
            left -= 1
            if left < 0:
                raise Killed
            return work(*args, **kwargs)

        return wrapped

    with monkeypatch.context() as dying:
        for name in ("fsync", "link", "mkdir", "rename", "rmdir", "symlink", "unlink"):
            dying.setattr(os, name, mortal(getattr(os, name)))
        yield


@pytest.mark.clause("Z3", "W6")
def test_a_round_that_is_killed_at_any_step_shows_the_old_table_or_the_new_one(
    story: Story, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(table_writer, "SMALL_FILES_MAX", 3)
    monkeypatch.setattr(table_folder, "GRACE_MS", 50)
    monkeypatch.setattr(table_folder, "GENERATIONS_MAX", 1)
    produce(story, 0, 10)
    seal(story)
    round_of(story, tmp_path)
    before = after = list(range(10))
    deaths = 0
    for number in count():
        produce(story, len(after), 10)
        before, after = after, list(range(len(after) + 10))
        seal(story)
        try:
            with killed_at(number, monkeypatch):
                round_of(story, tmp_path)
        except Killed:
            deaths += 1
            whole = listed(tmp_path)
            assert whole in (before, after)
            assert sorted(row["sequence_number"] for row in rows(tmp_path)) == whole  # type: ignore[type-var]
            round_of(story, tmp_path)
        else:
            break
        assert listed(tmp_path) == after
    assert listed(tmp_path) == after
    assert deaths > 20


@pytest.mark.clause("Z3", "W6")
def test_a_reader_who_has_listed_a_table_can_read_it_while_it_is_replaced(
    story: Story, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(table_writer, "SMALL_FILES_MAX", 3)
    table = tmp_path / "tables" / "events.order"
    produce(story, 0, 10)
    seal(story)
    round_of(story, tmp_path)
    named = table_files(table)
    resolved = (table / "current").resolve()
    for start in range(10, 100, 10):
        produce(story, start, 10)
        seal(story)
        round_of(story, tmp_path)
    for files in (named, list(resolved.glob("*.parquet"))):
        assert sum(parquet.read_table(file).num_rows for file in files) == 10
    assert json.loads((table / "manifest.json").read_text())["topic"] == "events.order"

    story.now += table_folder.GRACE_MS
    produce(story, 100, 10)
    for _ in range(2):
        seal(story)
        round_of(story, tmp_path)
    assert not resolved.exists()
    in_use = {os.path.basename(file) for file in table_files(table)}
    assert in_use <= set(os.listdir(table / "files"))
    assert len(os.listdir(table / "generations")) <= 3
    assert len(listed(tmp_path)) == 110


@pytest.mark.clause("T7", "Z3")
def test_a_table_made_anew_under_an_old_name_has_nothing_of_the_old_one(story: Story, tmp_path: Path) -> None:
    from driftq.core.decide.delete import decide_delete_topic

    produce(story, 0, 20)
    seal(story)
    round_of(story, tmp_path)
    story.journal.add(decide_delete_topic(story.state.topics["events.order"], now=story.now))
    story.commit()
    story.topic("events.order", 2, table=True)
    produce(story, 500, 3)
    seal(story)
    round_of(story, tmp_path)
    assert listed(tmp_path) == [500, 501, 502]


@pytest.mark.clause("T7", "Z3")
def test_rows_go_when_no_message_of_their_file_is_kept_and_tables_with_their_topic(
    story: Story, tmp_path: Path
) -> None:
    produce(story, 0, 20)
    seal(story)
    round_of(story, tmp_path)
    story.now += 10**6
    produce(story, 20, 10)
    story.trim()
    seal(story)
    round_of(story, tmp_path)
    assert sorted(row["sequence_number"] for row in rows(tmp_path)) == list(range(20, 30))  # type: ignore[type-var]
    from driftq.core.decide.delete import decide_delete_topic

    story.journal.add(decide_delete_topic(story.state.topics["events.order"], now=story.now))
    story.commit()
    seal(story)
    round_of(story, tmp_path)
    assert not (tmp_path / "tables" / "events.order").exists()


def test_without_a_table_topic_nothing_of_arrow_is_loaded() -> None:
    code = (
        "import sys, driftq.housekeeping.__main__, driftq.cli.serving;"
        "print(any(name in sys.modules for name in ('pyarrow', 'pandas', 'sqlalchemy')))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_a_missing_arrow_is_said_and_stops_nothing(
    story: Story, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    produce(story, 0, 20)
    with monkeypatch.context() as without:
        without.delitem(sys.modules, "driftq.tables.parquet", raising=False)
        without.setitem(sys.modules, "pyarrow", None)
        round_of(story, tmp_path)
    assert "install driftq[parquet]" in capsys.readouterr().err
    produce(story, 20, 20)
    seal(story)
    round_of(story, tmp_path)
    assert len(rows(tmp_path)) == 40
