"""The manifest of a read model in files: which files count, numbered, and never written twice.

Each version is a file of its own, put in place by linking a finished one to its number. A link fails where
the number is taken, so of two concurrent writers one comes second, reads the first one's version, and decides
again. A reader takes the highest number and sees a whole read model.
"""

from __future__ import annotations

import contextlib
import os
import time
import uuid
from pathlib import Path

import msgspec

from driftq.sinks.port import TopicPartition, WriterEpoch

_KEPT_S = 600.0
"""How long replaced files stay for readers that still use them."""
_KEPT_VERSIONS = 3


class RowFile(msgspec.Struct, frozen=True):
    name: str
    rows: int


class Reached(msgspec.Struct, frozen=True):
    topic: str
    partition: int
    offset: int


class ReadModelManifest(msgspec.Struct, frozen=True, kw_only=True):
    """One version of a read model."""

    format: int = 1
    version: int = 0
    epoch: int = 0
    generation: int = 1
    rows: tuple[RowFile, ...] = ()
    """The largest first, then the later ones; the newest sequence of an aggregate counts."""
    waiting: str | None = None
    dead_letters: tuple[str, ...] = ()
    reached: tuple[Reached, ...] = ()

    @property
    def writer_epoch(self) -> WriterEpoch:
        return WriterEpoch(self.epoch, self.generation)

    @property
    def positions(self) -> dict[TopicPartition, int]:
        return {TopicPartition(at.topic, at.partition): at.offset for at in self.reached}

    @property
    def files(self) -> set[str]:
        return {file.name for file in self.rows} | set(self.dead_letters) | ({self.waiting} - {None})  # type: ignore[operator]


class ReadModelManifests:
    """The versions of one read model, `PREFIX-000000000012.json` in its folder."""

    def __init__(self, folder: Path, prefix: str) -> None:
        self._folder = folder
        self._prefix = prefix

    def newest(self) -> ReadModelManifest | None:
        """None where nothing was ever written."""
        while True:
            names = sorted(self._folder.glob(f"{self._prefix}-*.json"))
            if not names:
                return None
            with contextlib.suppress(FileNotFoundError):  # Removed meanwhile: there is a newer one.
                return msgspec.json.decode(names[-1].read_bytes(), type=ReadModelManifest)

    def publish(self, manifest: ReadModelManifest) -> bool:
        """False if another has published this version before."""
        staged = self._folder / f".{self._prefix}-{uuid.uuid4().hex}"
        with staged.open("xb") as file:
            file.write(msgspec.json.encode(manifest))
            file.flush()
            os.fsync(file.fileno())
        try:
            os.link(staged, self._folder / f"{self._prefix}-{manifest.version:012}.json")
        except FileExistsError:
            return False
        finally:
            staged.unlink()
        sync_folder(self._folder)
        return True

    def sweep(self) -> None:
        """Remove old versions. Never the newest ones: their numbers must stay taken."""
        for path in sorted(self._folder.glob(f"{self._prefix}-*.json"))[:-_KEPT_VERSIONS]:
            path.unlink(missing_ok=True)


def sweep_files(folder: Path, counting: set[str]) -> None:
    """Remove the data files that no manifest names and that are too old to be in use."""
    before = time.time() - _KEPT_S
    for path in folder.glob("*.parquet"):
        with contextlib.suppress(FileNotFoundError):
            if path.name not in counting and path.stat().st_mtime < before:
                path.unlink()


def sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
