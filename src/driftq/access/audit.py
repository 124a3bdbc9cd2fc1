"""The audit log: a JSON line for each admin action, synced about once a second, rotated by size."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

BYTES_MAX = 16 << 20
FILES_KEPT = 5
"""Besides the current one: audit.log.1 is the newest of them."""

logger = logging.getLogger("driftq.access")


class AuditLog:
    """Written on one thread; `sync` may run on another. A disk that fails is logged and stops no request."""

    def __init__(self, path: str | Path, *, bytes_max: int = BYTES_MAX) -> None:
        """Raises OSError."""
        self._path = Path(path)
        self._bytes_max = bytes_max
        self._dirty = False
        self._open()

    def _open(self) -> None:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._descriptor = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        self._bytes = os.fstat(self._descriptor).st_size

    def write(self, entry: Mapping[str, Any]) -> None:
        line = json.dumps(entry, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"
        try:
            if self._bytes and self._bytes + len(line) > self._bytes_max:
                self._rotate()
            self._bytes += os.write(self._descriptor, line)
        except OSError as error:
            logger.error("the audit log %s cannot be written: %s", self._path, error)
        self._dirty = True

    @property
    def is_dirty(self) -> bool:
        """Something was written since the last sync."""
        return self._dirty

    def sync(self) -> None:
        self._dirty = False
        try:
            os.fsync(self._descriptor)
        except OSError as error:
            logger.error("the audit log %s cannot be synced: %s", self._path, error)

    def close(self) -> None:
        self.sync()
        os.close(self._descriptor)

    def _rotate(self) -> None:
        os.fsync(self._descriptor)
        for number in range(FILES_KEPT - 1, 0, -1):
            older = self._numbered(number)
            if older.exists():
                older.replace(self._numbered(number + 1))
        self._path.replace(self._numbered(1))
        os.close(self._descriptor)
        self._open()

    def _numbered(self, number: int) -> Path:
        return self._path.with_name(f"{self._path.name}.{number}")
