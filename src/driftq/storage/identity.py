"""The identity of a data folder: a name made once, by which readers of its topics know it again.

A reader stores how far it has read beside its own results. Those offsets mean nothing in another folder, even
where the topics have the same names. The identity goes into every backup, so that a restored folder is the
same one.
"""

import contextlib
import os
import uuid
from pathlib import Path

NAME = "identity"


def read_identity(data: str | os.PathLike[str]) -> str | None:
    """The identity of this folder; None where no server has run in it."""
    try:
        return Path(data, NAME).read_text(encoding="ascii").strip() or None
    except OSError:
        return None


def folder_identity(data: str | os.PathLike[str]) -> str:
    """The identity of this folder, made durable at the first call. Of two callers at once one decides."""
    known = read_identity(data)
    if known is not None:
        return known
    staged = Path(data, f"{NAME}.{uuid.uuid4().hex}")
    try:
        with staged.open("x", encoding="ascii") as file:
            file.write(f"{uuid.uuid4().hex}\n")
            file.flush()
            os.fsync(file.fileno())
        with contextlib.suppress(FileExistsError):
            os.link(staged, Path(data, NAME))
    finally:
        staged.unlink(missing_ok=True)
    _sync_folder(data)
    found = read_identity(data)
    assert found is not None  # It was linked above, by this process or another one.
    return found


def _sync_folder(data: str | os.PathLike[str]) -> None:
    handle = os.open(data, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
