"""The progress of a long command: a bar with a rate on a terminal, nothing elsewhere."""

from __future__ import annotations

import os
from types import TracebackType
from typing import Any, Self

from driftq.cli.screen import on_terminal


class ProgressBar:
    """Counts messages; knows how much is left when it reads a file."""

    def __init__(self, file: str) -> None:
        self._bar: Any = None
        self._task: Any = None
        try:
            self._total = os.path.getsize(file) if file != "-" else None
        except OSError:
            self._total = None

    def __enter__(self) -> Self:
        if on_terminal():
            from rich.console import Console
            from rich.progress import BarColumn, TextColumn
            from rich.progress import Progress as Bar

            self._bar = Bar(
                TextColumn("{task.fields[count]:,} produced"),
                BarColumn(),
                TextColumn("{task.fields[rate]:,.0f}/s"),
                console=Console(stderr=True, force_terminal=True),
                transient=True,
            )
            self._bar.start()
            self._task = self._bar.add_task("", total=self._total, count=0, rate=0.0)
        return self

    def show(self, *, count: int, read_bytes: int) -> None:
        if self._bar is not None:
            elapsed = self._bar.tasks[0].elapsed or 0.0
            rate = count / elapsed if elapsed else 0.0
            self._bar.update(self._task, completed=read_bytes, count=count, rate=rate)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.stop()
