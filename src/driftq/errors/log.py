"""The broker's log: writes that fail, and damaged files."""

from __future__ import annotations

from driftq.errors.kinds import Unavailable


class NotConfirmed(Unavailable):
    """The log could not be written: the request may or may not be stored after a restart."""

    reason = "log_failed"

    def __init__(self, cause: str) -> None:
        super().__init__(f"not confirmed: the log could not be written ({cause})")
        self.cause = cause


class WritingStopped(Unavailable):
    """The log could not be cut back after a failure, so nothing more is written."""

    reason = "writing_stopped"

    def __init__(self, cause: str) -> None:
        super().__init__(f"the server has stopped writing: {cause}")
        self.cause = cause


class DiskFull(Unavailable):
    """The disk has less free space than the server keeps in reserve. Nothing was stored; acks still work."""

    reason = "disk_full"

    def __init__(self, *, free_bytes: int, floor_bytes: int) -> None:
        super().__init__(
            f"{free_bytes} bytes are free on the disk of the log, fewer than the {floor_bytes} to leave free"
        )
        self.free_bytes = free_bytes
        self.floor_bytes = floor_bytes


class LogError(Exception):
    """A problem with the files of the log."""


class LogLocked(LogError):
    def __init__(self, path: str) -> None:
        super().__init__(f"{path} is in use by another DriftQ server")
        self.path = path


class LogCorrupt(LogError):
    """A damaged record is followed by whole records: going on could lose good data."""

    def __init__(self, path: str, *, position: int, problem: str, folder: str) -> None:
        super().__init__(
            f"{path} is damaged at byte {position}: {problem}. Whole records follow, so this is not a torn "
            f"tail and nothing was changed. To see what a repair would cut: driftq doctor --repair {folder}"
        )
        self.path = path
        self.position = position
        self.problem = problem
        self.folder = folder


class SnapshotDamaged(LogError):
    """A snapshot, index or manifest is damaged, and the segments that it replaced are gone."""

    def __init__(self, path: str, *, problem: str, folder: str) -> None:
        super().__init__(
            f"{path} is damaged: {problem}. Nothing was changed. Restore the folder from a backup, "
            f"or see what can be saved: driftq doctor {folder}"
        )
        self.path = path
        self.problem = problem
        self.folder = folder


class FormatTooNew(LogError):
    def __init__(self, path: str, *, found: int, known: int) -> None:
        super().__init__(f"{path} has format version {found}; this release reads up to {known}")
        self.path = path
        self.found = found
        self.known = known
