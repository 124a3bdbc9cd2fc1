"""The demo's server: a real process that can be killed and started again."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path


class Server:
    """`driftq serve` as a process of its own; the second start is on the same folder and port."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "driftq"
        self._errors = folder / "server.log"
        self._port = "0"
        self.start()

    def start(self) -> None:
        command = [sys.executable, "-m", "driftq", "serve", "--port", self._port, "--data", str(self.folder)]
        with self._errors.open("ab") as errors:
            self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True)
        assert self.process.stdout is not None
        found = re.search(r"http://\S+:(\d+)", self.process.stdout.readline())
        if found is None:
            sys.exit(f"the server did not start: {self._errors.read_text()}")
        self.url, self._port = found[0], found[1]

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()
