"""Spark's checkpoints of jobs whose progress is stored elsewhere: each serves one run."""

from __future__ import annotations

import shutil
import uuid
from pathlib import Path

_CHECKPOINTS_KEPT = 2


def fresh_checkpoint(folder: str) -> str:
    """A new folder in this one; a few earlier ones stay: a run that was replaced may still use its own."""
    earlier = sorted(Path(folder).glob("*/"), key=lambda path: path.stat().st_mtime)
    for path in earlier[:-_CHECKPOINTS_KEPT]:
        shutil.rmtree(path, ignore_errors=True)
    return str(Path(folder, uuid.uuid4().hex))
