"""A writer killed while its journal is being emptied: what it told is there, and no half of a batch."""

import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from tests.acceptance.eventstore import restless

ROUNDS = 6
BATCHES = 30


@pytest.mark.clause("S2")
def test_killed_between_journal_and_file(tmp_path: Path) -> None:
    path = tmp_path / "x.db"
    last = 0
    for nth in range(ROUNDS):
        told = run_until_killed(path, after=last, batches=BATCHES + nth)
        last = stored(path)
        assert told <= last <= told + restless.ROWS, "what was told is lost"
        assert last % restless.ROWS == 0, "half of a batch was kept"


def run_until_killed(path: Path, *, after: int, batches: int) -> int:
    """The last number that the writer told before it died."""
    command = [sys.executable, restless.__file__, str(path), str(after)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as writer:
        assert writer.stdout is not None
        told = [int(writer.stdout.readline()) for _ in range(batches)]
        writer.kill()
        told += [int(line) for line in writer.stdout if line.endswith("\n")]
    return told[-1]


def stored(path: Path) -> int:
    """How many numbers there are, all of them without a gap, in a file that is whole."""
    connection = sqlite3.connect(path)
    try:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        count, last = connection.execute("SELECT count(*), max(n) FROM numbers").fetchone()
    finally:
        connection.close()
    assert count == last, "a batch is missing"
    return int(count)
