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
from collections.abc import Mapping
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
    identity: str = ""


class RedrivenLetter(msgspec.Struct, frozen=True):
    """A dead letter that was applied after all."""

    id: str
    at: int
    by: str


class ReadModelManifest(msgspec.Struct, frozen=True, kw_only=True):
    """One version of a read model."""

    format: int = 1
    version: int = 0
    epoch: int = 0
    generation: int = 1
    rows: tuple[RowFile, ...] = ()
    """The largest first, then the later ones; the newest sequence of an aggregate counts."""
    waiting: str | None = None
    more_waiting: tuple[str, ...] = ()
    """Those that tasks wrote since; rows that their aggregate has reached no longer count."""
    dead_letters: tuple[str, ...] = ()
    reached: tuple[Reached, ...] = ()
    redriven: tuple[RedrivenLetter, ...] = ()

    @property
    def writer_epoch(self) -> WriterEpoch:
        return WriterEpoch(self.epoch, self.generation)

    @property
    def positions(self) -> dict[TopicPartition, int]:
        return {TopicPartition(at.topic, at.partition, at.identity): at.offset for at in self.reached}

    @property
    def waiting_files(self) -> tuple[str, ...]:
        return (*((self.waiting,) if self.waiting else ()), *self.more_waiting)

    @property
    def files(self) -> set[str]:
        return {file.name for file in self.rows} | set(self.dead_letters) | set(self.waiting_files)


def mergeable(files: tuple[RowFile, ...], *, recent_max: int) -> tuple[RowFile, ...]:
    """The last files, where they are to become one: all, the recent ones, or none."""
    large, recent = files[:1], files[1:]
    if not recent:
        return ()
    if 2 * sum(file.rows for file in recent) >= large[0].rows:
        return files
    return recent if len(recent) > recent_max else ()


def advanced(
    before: Mapping[TopicPartition, int], reached: Mapping[TopicPartition, int]
) -> tuple[Reached, ...]:
    """The positions of the next version."""
    positions = dict(before)
    for place, offset in reached.items():
        positions[place] = max(offset, positions.get(place, -1))
    return tuple(
        Reached(place.topic, place.partition, offset, place.identity)
        for place, offset in sorted(positions.items())
    )


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
