"""An immutable file of named byte strings, each with a checksum, that is used in place through a memory map.

    magic     8 bytes   "DriftQ", ff 01
    version   u32
    length    u32       of the directory
    check     u32       crc32c of the directory
    zeros     44 bytes
    directory           MessagePack: [[name, position, length, crc32c], …]
    parts               each at a multiple of 64 bytes

All little-endian. A part may be an array of integers: mapped into memory, it is used without a copy.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from struct import Struct

import msgspec
from crc32c import crc32c

from driftq.errors import FormatTooNew, SnapshotDamaged
from driftq.log.files import Bytes, Folder

FORMAT_VERSION = 1

_MAGIC = b"DriftQ\xff\x01"
_HEAD = Struct("<8sIII44x")
_ALIGN = 64
_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(list[tuple[str, int, int, int]]).decode


def write_arrays(folder: Folder, name: str, parts: Iterable[tuple[str, Bytes]]) -> int:
    """Write and sync a new file; returns its size. The folder itself is not synced."""
    views = [(part, memoryview(octets).cast("B")) for part, octets in parts]
    sizes = _encode([(part, 1 << 62, 1 << 62, 1 << 31) for part, _ in views])
    start = position = _aligned(_HEAD.size + len(sizes))
    directory: list[tuple[str, int, int, int]] = []
    for part, view in views:
        directory.append((part, position, len(view), crc32c(view)))
        position = _aligned(position + len(view))
    text = _encode(directory)
    file = folder.create(name)
    try:
        file.write_at(0, [_HEAD.pack(_MAGIC, FORMAT_VERSION, len(text), crc32c(text)), text])
        if views:
            file.write_at(start, list(_padded(views)))
        file.sync()
        return file.size()
    finally:
        file.close()


def _padded(views: Iterable[tuple[str, memoryview]]) -> Iterable[Bytes]:
    for _, view in views:
        yield view
        yield bytes(_aligned(len(view)) - len(view))


def read_arrays(folder: Folder, name: str) -> Mapping[str, memoryview]:
    """Every part by its name, verified. SnapshotDamaged when the file is damaged."""
    try:
        whole = folder.map(name)
    except FileNotFoundError:
        raise SnapshotDamaged(f"{folder.path}/{name}", problem="it is missing", folder=folder.path) from None
    try:
        return _read(whole, f"{folder.path}/{name}")
    except _Damage as damage:
        raise SnapshotDamaged(f"{folder.path}/{name}", problem=str(damage), folder=folder.path) from None


class _Damage(Exception):
    """What is wrong with the file."""


def _read(whole: memoryview, path: str) -> dict[str, memoryview]:
    if len(whole) < _HEAD.size:
        raise _Damage("it is cut short")
    magic, version, length, check = _HEAD.unpack(whole[: _HEAD.size])
    if magic != _MAGIC:
        raise _Damage("it does not begin as it should")
    if version > FORMAT_VERSION:
        raise FormatTooNew(path, found=version, known=FORMAT_VERSION)
    text = whole[_HEAD.size : _HEAD.size + length]
    if crc32c(text) != check:
        raise _Damage("its directory does not match its checksum")
    parts: dict[str, memoryview] = {}
    for part, position, size, crc in _decode(text):
        view = whole[position : position + size]
        if len(view) != size or crc32c(view) != crc:
            raise _Damage(f"part {part} does not match its checksum")
        parts[part] = view
    return parts


def _aligned(position: int) -> int:
    return -(-position // _ALIGN) * _ALIGN
