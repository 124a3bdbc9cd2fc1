"""A bit that flipped in events.db: nobody is given what was not appended, nothing of it is sealed."""

import contextlib
import shutil
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from tests.contract.serving import Answer, Server

AGGREGATE = {"aggregate_type": "order", "aggregate_id": "o-1"}


def event(number: int) -> dict[str, Any]:
    return AGGREGATE | {
        "event_id": f"e-{number}",
        "event_type": "order.changed",
        "kind": "fact",
        "operation": "append",
        "payload": {"total": 1000 + number},
    }


def flip(path: Path, column: str, found: bytes, bit: int) -> None:
    """Flip one bit of the second event, where `found` begins in the column, as a bad disk would."""
    with contextlib.closing(sqlite3.connect(path)) as database:
        select = f"SELECT CAST({column} AS BLOB) FROM events WHERE event_id = 'e-2'"
        (value,) = database.execute(select).fetchone()
        at = value.index(found)
        flipped = value[:at] + bytes([value[at] ^ (1 << bit)]) + value[at + 1 :]
        update = f"UPDATE events SET {column} = CAST(? AS TEXT) WHERE event_id = 'e-2'"
        assert database.execute(update, (flipped,)).rowcount == 1
        database.commit()


@pytest.fixture(scope="module")
def events_db(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What a server leaves behind that has stored three events."""
    folder = tmp_path_factory.mktemp("before")
    with Server(folder / "log") as server:
        assert server.post("/v1/events", [event(number) for number in (1, 2, 3)]).status == 201
        assert len(server.get("/v1/events/log").lines) == 3
    return folder / "events.db"


@pytest.fixture
def folder(events_db: Path, tmp_path: Path) -> Path:
    """A server's folder with those events in it."""
    shutil.copy(events_db, tmp_path)
    return tmp_path


def ask(server: Server, how: str) -> Answer:
    if how == "aggregate":
        return server.get("/v1/events", **AGGREGATE)
    return server.get("/v1/events/log", **({"stored": "true"} if how == "stored" else {}))


@pytest.mark.clause("W4", "S1")
@pytest.mark.parametrize(
    ("how", "column", "found", "bit"),
    [
        ("aggregate", "payload", b"2", 0),  # The total is another number.
        ("log", "metadata", b"fact", 1),
        ("stored", "payload", b"2", 7),  # It is no text any more.
    ],
)
def test_a_flipped_bit_is_never_given_out(
    folder: Path, how: str, column: str, found: bytes, bit: int
) -> None:
    flip(folder / "events.db", column, found, bit)
    server = Server(folder / "log").start()
    error = ask(server, how).refused(503, "UNAVAILABLE")
    assert error["reason"] in ("event_damaged", "database_damaged")
    if error["reason"] == "event_damaged":
        assert (error["event_id"], error["sequence_number"], error["aggregate_id"]) == ("e-2", 2, "o-1")
        assert "event 'e-2' (sequence 2 of order 'o-1', position 2) is damaged" in error["message"]
    code, logged = server.wait()
    assert code == 1
    assert "ERROR" in logged
    assert error["message"] in logged


@pytest.mark.clause("W4", "S1")
def test_what_is_sound_can_be_read_beside_it(folder: Path) -> None:
    flip(folder / "events.db", "payload", b"2", 0)
    with Server(folder / "log") as server:
        answer = server.get("/v1/events", **AGGREGATE, from_seq=3)
        assert [one["event_id"] for one in answer.json["events"]] == ["e-3"]
        assert server.post("/v1/events", event(4)).json["sequence_number"] == 4
