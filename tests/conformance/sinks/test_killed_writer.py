"""A writer of documents that gets SIGKILL again and again: the next one goes on, and nothing is missing."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from driftq.testing.sinks.cast import ORDERS, sequences
from driftq.testing.sinks.connected import NAME
from examples.custom_sink import KeyValueSink
from tests.conformance.sinks.mortal_writer import AGGREGATES
from tests.support.thorough import rounds

ROOT = Path(__file__).resolve().parents[3]
KILLS = rounds(3, thorough=6)


@pytest.mark.clause("V1", "V9", "V10", "Z6", "K10")
def test_a_writer_is_killed_again_and_again(tmp_path: Path) -> None:
    model = KeyValueSink(os.fspath(tmp_path)).connect(NAME)
    for kill in range(KILLS):
        command = [sys.executable, "-m", "tests.conformance.sinks.mortal_writer", os.fspath(tmp_path)]
        with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE) as writer:
            assert writer.stdout is not None
            for _ in range(1 + kill % 3):
                assert writer.stdout.readline()
            writer.kill()  # Somewhere in the batch that follows.
        settled = model.positions()[ORDERS]
        newest = {f"o-{event % AGGREGATES}": event for event in range(1, settled + 1)}
        found = sequences(model)
        assert newest.keys() <= found.keys()
        assert all(sequence <= found[name] <= settled + 5 for name, sequence in newest.items())
        dead = [letter.offset for letter in model.dead_letters()]
        assert dead[: settled // 10] == list(range(10, settled + 1, 10))
    assert model.take_over().epoch == KILLS + 1
    model.close()
