"""`driftq pipeline …` as a process, and what it leaves on the machine."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from driftq.pipeline.runtime.status import JobStatus, StatusFolder

ENDS_WITHIN_S = 280


class PipelineCommands:
    """The commands for one server and its folder."""

    def __init__(
        self,
        url: str,
        data: Path,
        env: dict[str, str] | None = None,
        *,
        folder: Path | None = None,
        within_s: float = ENDS_WITHIN_S,
    ) -> None:
        """In `folder`, else in that of the test."""
        self._folder = folder
        self._within_s = within_s
        self._where = ["--url", url, "--data", str(data)]
        self._status = StatusFolder(str(data / "pipeline"))
        kept = {name: value for name, value in os.environ.items() if not name.startswith("DRIFTQ_")}
        self._env = kept | (env or {})

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        """`driftq pipeline …` to its end."""
        return subprocess.run(
            self._command(*words),
            env=self._env,
            cwd=self._folder,
            capture_output=True,
            text=True,
            timeout=self._within_s,
            check=False,
        )

    def ran(self, *words: str) -> str:
        """The same, and it must go well; what it said on stdout."""
        done = self.run(*words)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def start(self, *words: str, errors: Path) -> subprocess.Popen[bytes]:
        """`driftq pipeline …` without waiting for its end."""
        with errors.open("wb") as file:
            return subprocess.Popen(
                self._command(*words), env=self._env, stdout=subprocess.DEVNULL, stderr=file
            )

    def rows(self, *words: str) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.ran("rows", *words, "--json").splitlines()]

    def status(self) -> dict[str, dict[str, Any]]:
        return {job["job"]: job for job in json.loads(self.ran("status", "--json"))["jobs"]}

    def status_of(self, job: str) -> JobStatus | None:
        """The same from the file, for those who look often."""
        return self._status.read(job)

    def _command(self, *words: str) -> list[str]:
        where = [] if words[0] == "plan" else self._where
        return [sys.executable, "-m", "driftq", "pipeline", *words, *where]
