"""The manifest: which files stand for the log up to the end of one segment.

It is replaced by one rename. The files it names are whole and on stable storage. A file that it does not
name, and that is no later segment, is a remnant of interrupted work or no longer needed.
"""

from __future__ import annotations

import re
from collections.abc import Callable

import msgspec
from crc32c import crc32c

from driftq.errors import FormatTooNew, SnapshotDamaged
from driftq.log.files import Folder
from driftq.log.frame import LogEnd
from driftq.log.segment import KEPT, file_name

MANIFEST = "MANIFEST"
FORMAT_VERSION = 1

_STAGED = "MANIFEST.new"
_OURS = re.compile(r"\d{20}\.(?:log|kept|index|snapshot)(?:\.\d+)?", re.ASCII)


class KeptFile(msgspec.Struct, frozen=True):
    """A file that messages are read from, with the file that says where each of them is."""

    number: int
    index: str


class Manifest(msgspec.Struct, frozen=True):
    """The state after the last frame of segment `segment`, and where the kept messages up to there are."""

    round: int
    segment: int
    position: int
    lsn: int
    snapshot: str
    files: list[KeptFile]
    last_kept: int = KEPT
    """The highest number that a file of kept messages ever had: none is used twice."""
    version: int = FORMAT_VERSION

    @property
    def end(self) -> LogEnd:
        return LogEnd(self.segment, self.position, self.lsn)

    def names(self) -> set[str]:
        """Every file that must be there."""
        return {
            self.snapshot,
            *(file.index for file in self.files),
            *(file_name(f.number) for f in self.files),
        }


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Manifest).decode


def read_manifest(folder: Folder) -> Manifest | None:
    """The manifest; None when there is none. SnapshotDamaged when it is damaged."""
    if MANIFEST not in folder.names():
        return None
    path = f"{folder.path}/{MANIFEST}"
    check, _, text = bytes(folder.map(MANIFEST)).partition(b"\n")
    if check != b"%08x" % crc32c(text):
        raise SnapshotDamaged(path, problem="it does not match its checksum", folder=folder.path)
    manifest = _decode(text)
    if manifest.version > FORMAT_VERSION:
        raise FormatTooNew(path, found=manifest.version, known=FORMAT_VERSION)
    return manifest


def publish_manifest(folder: Folder, manifest: Manifest) -> None:
    """Make these files the current ones. Their contents are synced already; this syncs their names."""
    folder.sync()
    text = _encode(manifest)
    if _STAGED in folder.names():
        folder.remove(_STAGED)
    file = folder.create(_STAGED)
    try:
        file.write_at(0, [b"%08x\n" % crc32c(text), text])
        file.sync()
    finally:
        file.close()
    folder.rename(_STAGED, MANIFEST)
    folder.sync()


def leftovers(names: list[str], manifest: Manifest | None) -> list[str]:
    """Our files that are not current: not named, and not a segment after the manifest's."""
    needed = manifest.names() if manifest else set()
    upto = manifest.segment if manifest else 0
    found = [name for name in names if _OURS.fullmatch(name) and name not in needed]
    found = [name for name in found if not (name.endswith(".log") and int(name[:20]) > upto)]
    return sorted(found + [name for name in names if name == _STAGED])


def remove_leftovers(
    folder: Folder, manifest: Manifest | None, *, forget: Callable[[int], None] | None = None
) -> None:
    """Remove them, once the manifest without them is on stable storage.

    `forget` gets the number of each data file before it goes.
    """
    names = leftovers(folder.names(), manifest)
    if names:
        folder.sync()  # A publication may have failed between its rename and its sync.
    for name in names:
        stem, _, kind = name.partition(".")
        if forget is not None and kind in ("log", "kept"):
            forget(int(stem) + (KEPT if kind == "kept" else 0))
        folder.remove(name)
