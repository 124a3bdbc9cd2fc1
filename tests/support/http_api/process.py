"""The counting API as a process that can be killed and started again at its port."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path
from types import TracebackType
from typing import Any, Self

_SERVER = Path(__file__).with_name("server.py")


class HttpApi:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(exist_ok=True)
        self.port = 0
        self._process: subprocess.Popen[str] | None = None
        self.behave("ok")

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def behave(self, mode: str) -> None:
        fresh = self.folder / "mode.next"
        fresh.write_text(mode)
        fresh.replace(self.folder / "mode")

    def start(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, str(_SERVER), str(self.port), str(self.folder)],
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._process.stdout is not None
        self.port = int(self._process.stdout.readline())

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            assert self._process.stdout is not None
            self._process.stdout.close()
            self._process = None

    def requests(self) -> list[dict[str, Any]]:
        return self._lines("requests")

    def effects(self) -> Counter[str]:
        """How often each value was performed."""
        return Counter(json.dumps(one["value"]).strip('"') for one in self._lines("effects"))

    def _lines(self, file: str) -> list[dict[str, Any]]:
        path = self.folder / file
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()
