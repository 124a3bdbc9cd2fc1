"""The demo's server: a real process that can be killed and started again."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from examples.demo.screen import wait_until

_START_S = 120.0


class Server:
    """`driftq serve` as a process of its own; the second start is on the same folder and port."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "driftq"
        self._said = folder / "server.out"
        self._errors = folder / "server.log"
        self._port = "0"
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        command = [sys.executable, "-m", "driftq", "serve", "--port", self._port, "--data", str(self.folder)]
        with self._said.open("wb") as said, self._errors.open("ab") as errors:
            # In a session of its own: Ctrl-C is for the demo, which ends its server itself.
            self.process = subprocess.Popen(command, stdout=said, stderr=errors, start_new_session=True)
        wait_until("a server starts", self._is_up, within_s=_START_S)

    def _is_up(self) -> bool:
        found = re.search(r"http://\S+:(\d+)(?=\s)", self._said.read_text())
        if found is not None:
            self.url, self._port = found[0], found[1]
        elif self.process is not None and self.process.poll() is not None:
            sys.exit(f"The server did not start: {self._errors.read_text()}")
        return found is not None

    def kill(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()
