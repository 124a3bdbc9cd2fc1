"""A table is whole at every moment, for whoever lists its files, while rounds run and are killed."""

import random
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from driftq.log.disk import OsFolder
from driftq.model.options.limits import Limits
from tests.support.story import Story

LIVES = 3
ROUNDS_A_LIFE = 8
EACH = 20


@contextmanager
def running(module: str, path: Path) -> Iterator[subprocess.Popen[str]]:
    """A module of this folder as a process that talks by lines; it has said its first one."""
    command = [sys.executable, "-m", f"tests.crash.{module}", str(path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert hears(process)
            yield process
        finally:
            process.kill()


def hears(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline()


def says(process: subprocess.Popen[str], line: str) -> None:
    assert process.stdin is not None
    process.stdin.write(f"{line}\n")
    process.stdin.flush()


@pytest.mark.clause("Z3", "W6")
def test_a_reader_who_lists_the_folder_never_sees_a_gap_or_a_double(tmp_path: Path) -> None:
    story = Story(OsFolder(tmp_path / "log"), limits=Limits(), segment_records=1_000)
    story.topic("orders", 1, table=True)
    story.topic("other")
    draw = random.Random(7)
    took = 0.0

    def new_segment() -> str:
        story.produce("orders", *(str(value) for value in range(EACH)))
        story.log.roll()
        story.produce("other", "behind the seal")
        return str(story.log.sealed)

    with running("table_reader", tmp_path / "tables" / "orders") as reader:
        for _ in range(LIVES):
            with running("table_rounds", tmp_path) as housekeeper:
                for _ in range(ROUNDS_A_LIFE):
                    began = time.monotonic()
                    says(housekeeper, new_segment())
                    assert hears(housekeeper) == "done\n"
                    took = time.monotonic() - began
                says(housekeeper, new_segment())
                time.sleep(took * draw.random())  # Somewhere within a round it ends, without a word.
        with running("table_rounds", tmp_path) as housekeeper:
            says(housekeeper, new_segment())
            assert hears(housekeeper) == "done\n"
        says(reader, "the end")
        verdict = hears(reader).split()
        assert verdict, "the reader has met a table that was not whole"
        changes, rows = map(int, verdict)
    assert changes > 3
    assert rows > EACH * ROUNDS_A_LIFE
