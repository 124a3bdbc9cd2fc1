"""A table's folder, from the writer's side: files are added, then one rename makes them visible.

    write files ─▶ link a generation ─▶ sync ─▶ turn `current` to it ─▶ sync ─▶ later: remove what is unnamed

A round that is interrupted before the rename leaves files that no generation names, and the next round
removes them. The rename replaces a symbolic link, so there is no moment without a table and none with two.
"""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Callable

import msgspec

from driftq.tables.reader import (
    CURRENT,
    FILES,
    GENERATIONS,
    LISTED,
    MANIFEST,
    TableFile,
    TableManifest,
    read_table,
)

GRACE_MS = 10 * 60_000
"""How long a reader may still read files that were replaced."""
GENERATIONS_MAX = 20
"""The most past generations that stay, however fast they follow each other."""


class TableFolder:
    """One topic's table on disk."""

    def __init__(self, path: str) -> None:
        self._path = path

    def open(self, topic: str, topic_id: int, *, now: int) -> TableManifest:
        """The current table, without the remnants of dead rounds and past readers."""
        for name in (FILES, GENERATIONS):
            os.makedirs(os.path.join(self._path, name), exist_ok=True)
        manifest = read_table(self._path)
        if manifest is None or manifest.topic_id != topic_id:
            newest = max(map(int, filter(str.isdigit, self._names(GENERATIONS))), default=0)
            manifest = TableManifest(topic=topic, topic_id=topic_id, round=newest)
            self._unlink(CURRENT)  # That of an earlier topic of this name.
        self._remove_unnamed(manifest, now)
        return manifest

    def path_of(self, file: TableFile) -> str:
        return os.path.join(self._path, file.name)

    def put(self, number: int, first: int, last: int, write: Callable[[str], int]) -> TableFile:
        """Add a file, which readers do not see before it is published."""
        name = os.path.join(FILES, f"{number}-{first}-{last}.parquet")
        staged = os.path.join(self._path, FILES, "_staged")
        rows = write(staged)
        _sync(staged)
        os.rename(staged, os.path.join(self._path, name))
        return TableFile(name, number, first, last, rows)

    def publish(self, manifest: TableManifest, files: list[TableFile], *, now: int) -> None:
        """Make these files the table, in place of those of the manifest."""
        names = {file.name for file in files}
        past = [(now, os.path.join(GENERATIONS, str(manifest.round)))]
        past += [(now, file.name) for file in manifest.files if file.name not in names]
        gone = _still_read(manifest.gone, now) + past
        made = TableManifest(manifest.topic, manifest.topic_id, manifest.round + 1, files, gone)
        generation = os.path.join(GENERATIONS, str(made.round))
        folder = os.path.join(self._path, generation)
        os.mkdir(folder)
        for file in files:
            _link(self.path_of(file), os.path.join(folder, os.path.basename(file.name)))
        with open(os.path.join(folder, LISTED), "wb") as out:
            out.write(msgspec.json.format(msgspec.json.encode(made), indent=1))
            out.flush()
            os.fsync(out.fileno())
        for each in (os.path.join(self._path, FILES), folder, os.path.join(self._path, GENERATIONS)):
            _sync(each)
        self._turn(CURRENT, generation)
        self._turn(MANIFEST, os.path.join(CURRENT, LISTED))
        _sync(self._path)

    def remove(self) -> None:
        """Remove the table: first the link that readers follow, then the rest."""
        self._unlink(CURRENT)
        shutil.rmtree(self._path)

    def _turn(self, name: str, target: str) -> None:
        """Point a symbolic link at this, atomically."""
        link = os.path.join(self._path, name)
        if os.path.islink(link) and os.readlink(link) == target:
            return
        staged = os.path.join(self._path, f"_{name}")
        os.symlink(target, staged)
        os.rename(staged, link)

    def _unlink(self, name: str) -> None:
        path = os.path.join(self._path, name)
        if os.path.islink(path):
            os.unlink(path)

    def _names(self, folder: str) -> list[str]:
        return os.listdir(os.path.join(self._path, folder))

    def _remove_unnamed(self, manifest: TableManifest, now: int) -> None:
        """Files of a round that died, and those that were replaced a while ago."""
        kept = {file.name for file in manifest.files} | {name for _, name in _still_read(manifest.gone, now)}
        kept |= {os.path.join(GENERATIONS, str(manifest.round)), FILES, GENERATIONS, CURRENT, MANIFEST}
        found = {
            os.path.join(folder, name) for folder in (FILES, GENERATIONS) for name in self._names(folder)
        }
        for name in (found | set(os.listdir(self._path))) - kept:
            path = os.path.join(self._path, name)
            if os.path.isdir(path) and not os.path.islink(path):
                shutil.rmtree(path)
            else:
                os.unlink(path)


def _still_read(gone: list[tuple[int, str]], now: int) -> list[tuple[int, str]]:
    """The files that a reader may still have open."""
    young = [(since, name) for since, name in gone if now - since < GRACE_MS]
    generations = [one for one in young if one[1].startswith(GENERATIONS)]
    too_many = set(generations[:-GENERATIONS_MAX])
    return [one for one in young if one not in too_many]


def _link(source: str, target: str) -> None:
    """Link the file under a second name; copy it where the file system has no hard links."""
    try:
        os.link(source, target)
    except OSError as refusal:
        if refusal.errno not in (errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK):
            raise
        shutil.copyfile(source, target)
        _sync(target)


def _sync(path: str) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
