"""The stored form of a job."""

from __future__ import annotations

import json

import msgspec

from driftq.model.job import JobRequest, StoredJob
from driftq.storage.entry import PREFIX_BYTES, encode_text, encode_time, produced_at

KEPT_BYTES_MAX = 16_384
_decoder = msgspec.json.Decoder(StoredJob)


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
    )
    return encode_text(msgspec.json.encode(stored), encode_time(at))


def decode_job(entry: bytes) -> StoredJob:
    return _decoder.decode(entry[PREFIX_BYTES:])


def without_large_payload(entry: bytes) -> bytes:
    """A finished job's long-term form: a large payload is replaced by null."""
    if len(entry) <= KEPT_BYTES_MAX:
        return entry
    stored = msgspec.structs.replace(decode_job(entry), payload=msgspec.Raw(b"null"))
    return encode_text(msgspec.json.encode(stored), encode_time(produced_at(entry)))


def is_same(job: StoredJob | JobRequest, other: JobRequest) -> bool:
    """Whether two jobs are the same work: same task, same payload, however it is written."""
    first, second = bytes(job.payload), bytes(other.payload)
    return job.task == other.task and (first == second or json.loads(first) == json.loads(second))
