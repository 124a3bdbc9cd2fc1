"""Topics as Parquet tables: complete, in order, without doubles, whenever the work is cut off."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from pyarrow import parquet

from driftq.housekeeping import tables
from driftq.housekeeping.round import run_round
from driftq.housekeeping.tables import Tables, read_table, table_files
from driftq.log.disk import OsFolder
from driftq.model import Envelope
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
    on_disk = set(os.listdir(tmp_path / "tables" / "events.order"))
    assert on_disk >= {file.name for file in manifest.files}


@pytest.mark.clause("Z3", "W6")
@pytest.mark.parametrize("call", ["_sync", "_publish"])
def test_a_round_that_dies_at_any_step_is_done_again_and_readers_see_whole_tables(
    story: Story, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    produce(story, 0, 30)
    seal(story)
    round_of(story, tmp_path)
    seen = 30
    work = getattr(tables, call)
    for dies_at in range(6):
        produce(story, seen, 30)
        seal(story)
        calls = 0

        def dying(*arguments: object) -> None:
            nonlocal calls
            calls += 1
            if calls > dies_at:  # noqa: B023
                raise OSError("killed")
            work(*arguments)

        with monkeypatch.context() as broken:
            broken.setattr(tables, call, dying)
            try:
                round_of(story, tmp_path)
            except OSError:
                visible = sorted(row["sequence_number"] for row in rows(tmp_path))  # type: ignore[type-var]
                assert visible in (list(range(seen)), list(range(seen + 30)))
        seen += 30
        round_of(story, tmp_path)
        assert sorted(row["sequence_number"] for row in rows(tmp_path)) == list(range(seen))  # type: ignore[type-var]


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
    from driftq.core.decide.ending import decide_delete_topic

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
        without.delitem(sys.modules, "driftq.housekeeping.parquet", raising=False)
        without.setitem(sys.modules, "pyarrow", None)
        round_of(story, tmp_path)
    assert "install driftq[tables]" in capsys.readouterr().err
    produce(story, 20, 20)
    seal(story)
    round_of(story, tmp_path)
    assert len(rows(tmp_path)) == 40
