"""The stored form of one message: `crc32c u32 · produced at, ms, u64 · JSON text`.

The checksum lets a single message be trusted when it is read alone. The text is an object that is encoded
once, at produce, and spliced into every delivery without being decoded.
"""

import struct
from collections.abc import Iterable

import msgspec
from crc32c import crc32c

from driftq.model import StoredMessage

PREFIX_BYTES = 12
BODY_AT = PREFIX_BYTES + 1
"""Behind the text's opening brace."""

_TIME = struct.Struct("<Q")
_PREFIX = struct.Struct("<IQ")
_encode = msgspec.json.Encoder().encode
_encode_into = msgspec.json.Encoder().encode_into
_decoder = msgspec.json.Decoder(StoredMessage)


def encode_time(at: int) -> bytes:
    """The produce time of entries; the same for all that are encoded together."""
    return _TIME.pack(at)


def encode_entry(stored: StoredMessage, time: bytes) -> bytes:
    tail = time + _encode(stored)
    return crc32c(tail).to_bytes(4, "little") + tail


def encode_entries(stored: Iterable[StoredMessage], at: int) -> list[bytes]:
    """The same for many: the text is made in a buffer that is used again, and copied once."""
    encode_into, checksum, prefix = _encode_into, crc32c, _PREFIX.pack
    of_time = checksum(encode_time(at))
    text = bytearray()
    entries: list[bytes] = []
    for one in stored:
        encode_into(one, text)
        entries.append(prefix(checksum(text, of_time), at) + text)
    return entries


def encode_text(text: bytes, time: bytes) -> bytes:
    """The stored form of JSON text that is encoded already."""
    tail = time + text
    return crc32c(tail).to_bytes(4, "little") + tail


def is_intact(entry: bytes) -> bool:
    """Whether the entry is as it was written."""
    return len(entry) > PREFIX_BYTES and crc32c(entry[4:]) == int.from_bytes(entry[:4], "little")


def decode_entry(entry: bytes) -> StoredMessage:
    return _decoder.decode(entry[PREFIX_BYTES:])


def produced_at(entry: bytes) -> int:
    """When the message was produced, in milliseconds."""
    return int(_TIME.unpack_from(entry, 4)[0])
