"""The commands of a page, as somebody pastes them into a shell: one block behind the other."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from tests.harness import ServerProcess

ROOT = Path(__file__).resolve().parents[2]
BLOCK = re.compile(r"^```(sh|bash|console|python)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
PATIENCE_S = 900.0
"""For one block: it may start Spark, and others may keep the machine busy."""

ELSEWHERE = re.compile(r"^(make |(DRIFTQ_\w+=\S+ )?driftq serve|sqlite3 )")
"""What runs until Ctrl-C or for very long, and programs of others; the test has a server already."""


@dataclass(frozen=True, slots=True)
class Paste:
    """What one block said when it was pasted."""

    block: str
    said: str
    failures: list[str] = field(default_factory=list)
    """`exit code: command`, for every command that ended with another exit code than 0."""


class Shell:
    """A shell in a checkout: `.venv` is there, a server listens, its data is in ./driftq-data."""

    def __init__(self, folder: Path, server: ServerProcess) -> None:
        self._folder = folder
        self._port = server.port
        (folder / ".venv").symlink_to(Path(sys.prefix), target_is_directory=True)
        bin_folder = os.path.dirname(sys.executable)
        self._env = {name: value for name, value in os.environ.items() if not name.startswith("DRIFTQ_")}
        self._env["PATH"] = f"{bin_folder}:{os.environ['PATH']}"
        self._env["DRIFTQ_URL"] = f"http://127.0.0.1:{server.port}"

    def paste(self, page: Path) -> Iterator[Paste]:
        """Each block in turn; those in Python are one program, which stands where the first of them does."""
        blocks = [(kind, _commands(kind, block)) for kind, block in BLOCK.findall(page.read_text())]
        program = "\n\n".join(text for kind, text in blocks if kind == "python")
        for kind, commands in blocks:
            text, program = (program, "") if kind == "python" else (commands, program)
            if text.strip():
                yield self._run(kind, text.replace(":8080", f":{self._port}"))

    def run(self, command: str) -> Paste:
        """One command, as a console block has it."""
        return self._run("console", command.replace(":8080", f":{self._port}"))

    def _run(self, kind: str, text: str) -> Paste:
        failed = self._folder / "failed"
        failed.write_text("")
        if kind == "python":
            command = [sys.executable, "-c", text]
        else:
            noted = f"trap 'echo \"$?: $BASH_COMMAND\" >> {failed}' ERR"
            command = ["bash", "-c", f"{noted}\n{text}"]
        done = subprocess.run(
            command,
            cwd=self._folder,
            env=self._env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )
        failures = failed.read_text().splitlines()
        if kind == "python" and done.returncode:
            failures.append(f"{done.returncode}: python")
        return Paste(text, done.stdout + done.stderr, failures)


def _commands(kind: str, block: str) -> str:
    """The lines that somebody would paste; in a console they stand behind a $."""
    if kind == "python":
        return block
    lines = block.splitlines()
    if kind == "console":
        lines = [line.removeprefix("$ ") for line in lines if line.startswith("$ ")]
    return "\n".join(line for line in lines if not ELSEWHERE.match(line))


STREAM_ENDED = "28: curl -sN --max-time 2 "
"""How curl says that it has closed the stream after its two seconds, as it was told to."""

NOT_THERE = {
    "docs/how-to/operate.md": ("driftq group delete orders old-report", "driftq group reset orders billing"),
    "docs/how-to/failed-messages.md": (
        "driftq explain orders/17",
        "driftq explain --run nightly-7",
        "driftq dlq show orders",
        "driftq dlq redrive orders",
        "driftq dlq purge orders",
        "driftq registry requeue charge EVENT_ID",
        "driftq registry resolve charge EVENT_ID",
    ),
}
"""Commands about something that a new server does not have: they say so, and that is all."""


def check(page: str, pastes: list[Paste]) -> None:
    for paste in pastes:
        assert "Traceback" not in paste.said, paste
        for failure in paste.failures:
            if failure.startswith(STREAM_ENDED):
                continue
            _, _, command = failure.partition(": ")
            assert command.startswith(NOT_THERE.get(page, ())), paste
            assert "does not exist" in paste.said or "no message" in paste.said or "no claim" in paste.said
