"""`make demo` as somebody sees it: without Java, and when they have seen enough."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.waiting import wait_until

ROOT = Path(__file__).resolve().parents[3]
PATIENCE_S = 240.0


class Demo:
    """The demo as a process, its output in a file, its folder found in what it says."""

    def __init__(self, folder: Path, **env: str) -> None:
        self._output = folder / "said"
        environ = {name: value for name, value in os.environ.items() if name != "JAVA_HOME"}
        environ |= {"TMPDIR": str(folder), "PYTHONUNBUFFERED": "1", **env}
        with self._output.open("wb") as output:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "examples.demo"],
                cwd=ROOT,
                env=environ,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
            )

    @property
    def said(self) -> str:
        return self._output.read_text()

    def wait_for(self, words: str) -> None:
        def is_there() -> bool:
            assert self.process.poll() is None or words in self.said, self.said
            return words in self.said

        wait_until(f"it says {words!r}", is_there, within_s=PATIENCE_S)

    def end(self) -> int:
        return self.process.wait(PATIENCE_S)

    def left_running(self) -> list[str]:
        """The command lines of living processes that name the demo's folder."""
        found = re.search(r"Everything happens in (\S+);", self.said)
        assert found is not None, self.said
        return [line for line in _command_lines() if found[1] in line]


def _command_lines() -> Iterator[str]:
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                yield entry.joinpath("cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            except OSError:
                continue  # It has ended meanwhile.


@pytest.mark.clause("Z1")
def test_without_java_the_demo_shows_the_broker_and_says_what_it_left_out(tmp_path: Path) -> None:
    demo = Demo(tmp_path, PATH="/nowhere")
    assert demo.end() == 0, demo.said
    said = demo.said
    assert "left out: Spark needs Java, and there is none here" in said
    assert re.search(r"lost 0 .*0 \|", said)
    assert re.search(r"doubled 0 .*0 \|", said)
    assert "With Java 17 installed, make demo shows that part too." in said
    assert "next: make serve" in said
    assert demo.left_running() == []
    assert list(tmp_path.glob("driftq-demo-*")) == []


@pytest.mark.clause("Z1")
@pytest.mark.parametrize("moment", ["producers send", "Spark starts, with three stages"])
def test_ctrl_c_ends_the_demo_with_one_sentence_and_leaves_nothing(tmp_path: Path, moment: str) -> None:
    demo = Demo(tmp_path)
    demo.wait_for(moment)
    demo.process.send_signal(signal.SIGINT)
    assert demo.end() == 130
    sentence = "Stopped before the end: all processes of the demo are ended, its folder is removed."
    assert demo.said.splitlines()[-1] == sentence
    assert "Traceback" not in demo.said
    assert demo.left_running() == []
    assert list(tmp_path.glob("driftq-demo-*")) == []
