"""The stored form of one message or job: `crc32c u32 · produced at, ms, u64 · JSON text`.

The checksum lets a single message be trusted when it is read alone. The text is an object that is encoded
once, at produce, and spliced into every delivery without being decoded.
"""

import json
import struct
from collections.abc import Iterable

import msgspec
from crc32c import crc32c

from driftq.model import StoredMessage
from driftq.model.job import JobRequest, StoredJob

PREFIX_BYTES = 12
BODY_AT = PREFIX_BYTES + 1
"""Behind the text's opening brace."""
JOB_BYTES_MAX = 16_384
"""A finished job that is larger is kept without its payload."""

_TIME = struct.Struct("<Q")
_PREFIX = struct.Struct("<IQ")
_encode = msgspec.json.Encoder().encode
_encode_into = msgspec.json.Encoder().encode_into
_decoder = msgspec.json.Decoder(StoredMessage)
_job_decoder = msgspec.json.Decoder(StoredJob)


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


# Jobs


def encode_job(job: JobRequest, at: int) -> bytes:
    stored = StoredJob(
        queue=job.queue,
        task=job.task,
        payload=job.payload,
        priority=job.priority,
        max_retries=job.max_retries,
        timeout_ms=job.timeout_ms,
        run_at=job.run_at,
        idempotency_key=job.idempotency_key,
        retry=job.retry,
        metadata=job.metadata,
        limit_key=job.limit_key,
        after=job.after,
        traceparent=job.traceparent,
    )
    return encode_text(msgspec.json.encode(stored), encode_time(at))


def decode_job(entry: bytes) -> StoredJob:
    return _job_decoder.decode(entry[PREFIX_BYTES:])


def without_large_payload(entry: bytes) -> bytes:
    """A finished job's long-term form: a large payload is replaced by null."""
    if len(entry) <= JOB_BYTES_MAX:
        return entry
    stored = msgspec.structs.replace(decode_job(entry), payload=msgspec.Raw(b"null"))
    return encode_text(msgspec.json.encode(stored), encode_time(produced_at(entry)))


def is_same(job: StoredJob | JobRequest, other: JobRequest) -> bool:
    """Whether two jobs are the same work: same task, same payload, however it is written."""
    first, second = bytes(job.payload), bytes(other.payload)
    return job.task == other.task and (first == second or json.loads(first) == json.loads(second))
