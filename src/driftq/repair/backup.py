"""A consistent copy of a log, with or without a running server.

What the manifest names never changes, so it is linked or copied as it is; the segments behind it only grow,
so that any copy of them is the log at some moment, perhaps with a torn end. When the manifest is replaced
meanwhile and files vanish, the copy is begun again.
"""

from __future__ import annotations

import errno
import os
import shutil
import sqlite3
from dataclasses import dataclass

from driftq.errors import LogError
from driftq.log.disk import OsFolder
from driftq.log.manifest import MANIFEST, read_manifest
from driftq.log.segment import segment_name, segment_numbers
from driftq.model.options.limits import Limits
from driftq.repair.doctor import Findings, look_at
from driftq.storage.identity import NAME as IDENTITY
from driftq.storage.identity import read_identity

_TRIES = 20
HISTORY = "history.db"


class BackupFailed(LogError):
    """The backup failed; the partial copy is removed."""


@dataclass(frozen=True, slots=True)
class Backup:
    """A finished copy."""

    files: int
    bytes: int
    findings: Findings


def back_up(data: str, target: str, *, limits: Limits) -> Backup:
    """Copy the server's folder `data` to the new folder `target` and verify the copy."""
    log = os.path.join(data, "log")
    if not os.path.isdir(log):
        raise BackupFailed(f"{log} is not a log folder")
    if os.path.exists(target) and os.listdir(target):
        raise BackupFailed(f"{target} already exists and is not empty")
    staged = f"{target.rstrip('/')}.unfinished"
    for _ in range(_TRIES):
        shutil.rmtree(staged, ignore_errors=True)
        os.makedirs(os.path.join(staged, "log"))
        try:
            _copy_log(log, os.path.join(staged, "log"))
        except FileNotFoundError:
            continue  # The housekeeper was faster.
        break
    else:
        shutil.rmtree(staged)
        raise BackupFailed(f"the files of {log} change faster than they can be copied")
    _copy_history(os.path.join(data, HISTORY), os.path.join(staged, HISTORY))
    if read_identity(data) is not None:
        _copy(data, staged, IDENTITY)
    folder = OsFolder(os.path.join(staged, "log"))
    folder.sync()
    findings = look_at(folder, limits=limits)
    folder.close()
    if findings.damages:
        raise BackupFailed(
            f"the copy in {staged} is damaged, and so is the original: {findings.damages[0].problem}"
        )
    if os.path.isdir(target):
        os.rmdir(target)
    os.rename(staged, target)
    names = os.listdir(os.path.join(target, "log"))
    size = sum(os.path.getsize(os.path.join(target, "log", name)) for name in names)
    return Backup(len(names), size, findings)


def bring_back(backup: str, data: str, *, limits: Limits) -> Backup:
    """Make `data`, which must not exist or be empty, from a backup. The backup stays as it is."""
    if not os.path.isdir(os.path.join(backup, "log")):
        raise BackupFailed(f"{backup} is not a backup")
    return back_up(backup, data, limits=limits)


def _copy_log(source: str, target: str) -> None:
    folder = OsFolder(source)
    try:
        manifest = read_manifest(folder)
        behind = manifest.segment if manifest else 0
        names = sorted(manifest.names()) if manifest else []
        tail = [number for number in segment_numbers(folder.names()) if number > behind]
        if manifest is not None:
            _copy(source, target, MANIFEST)
            if read_manifest(OsFolder(target)) != manifest:
                raise FileNotFoundError(MANIFEST)  # Replaced while it was copied.
    finally:
        folder.close()
    for name in names:
        _link(source, target, name)
    for number in tail:
        _copy(source, target, segment_name(number))


def _link(source: str, target: str, name: str) -> None:
    """A hard link to the file where possible, because the file never changes."""
    try:
        os.link(os.path.join(source, name), os.path.join(target, name))
    except OSError as refusal:
        if refusal.errno == errno.ENOENT:
            raise
        _copy(source, target, name)


def _copy(source: str, target: str, name: str) -> None:
    shutil.copyfile(os.path.join(source, name), os.path.join(target, name))
    descriptor = os.open(os.path.join(target, name), os.O_RDWR)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _copy_history(source: str, target: str) -> None:
    if os.path.exists(source):
        with sqlite3.connect(source) as live, sqlite3.connect(target) as copy:
            live.backup(copy)
        live.close()
        copy.close()
