"""A real outage without a server: the folder of a Parquet sink is moved away."""

from __future__ import annotations

from pathlib import Path

from driftq.sinks import ParquetSink


class Outage:
    """A folder of Parquet files that is not there for a while."""

    def __init__(self, folder: Path) -> None:
        self.sink = ParquetSink(str(folder))
        self._folder = folder
        self._aside = folder.with_name("aside")

    def begin(self) -> None:
        self._folder.rename(self._aside)
        self._folder.touch()  # A file in its place: nothing can be made below it.

    def end(self) -> None:
        self._folder.unlink()
        self._aside.rename(self._folder)
