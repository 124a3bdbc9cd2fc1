"""The lines of a file or of stdin, as text."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import IO


class InputLines:
    """Yields each line without its line end; stops at one that cannot be read, and sets `problem`."""

    def __init__(self, file: str) -> None:
        """`-` is stdin."""
        self._file = file
        self.read_bytes = 0
        self.problem: str | None = None

    def __iter__(self) -> Iterator[str]:
        try:
            if self._file == "-":
                yield from self._decoded("stdin", sys.stdin.buffer)
            else:
                with Path(self._file).open("rb") as opened:
                    yield from self._decoded(self._file, opened)
        except OSError as error:
            self.problem = f"{self._file}: {(error.strerror or str(error)).lower()}"

    def _decoded(self, name: str, opened: IO[bytes]) -> Iterator[str]:
        for number, line in enumerate(opened, start=1):
            try:
                text = line.removesuffix(b"\n").removesuffix(b"\r").decode()
            except UnicodeDecodeError:
                self.problem = f"{name}, line {number} is not UTF-8"
                return
            self.read_bytes += len(line)
            yield text
