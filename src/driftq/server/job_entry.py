"""The stored form of a job, and reading it back."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable

import msgspec

from driftq.core.keys import Claim
from driftq.errors import JobNotFound, NotConfirmed
from driftq.model.job import JobRequest, StoredJob, job_id
from driftq.server.entry import PREFIX_BYTES, encode_text, encode_time, produced_at
from driftq.server.recaller import Recaller

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
    """What is kept of a job for long: a payload of some size is replaced by null."""
    if len(entry) <= KEPT_BYTES_MAX:
        return entry
    stored = msgspec.structs.replace(decode_job(entry), payload=msgspec.Raw(b"null"))
    return encode_text(msgspec.json.encode(stored), encode_time(produced_at(entry)))


def is_same(one: StoredJob | JobRequest, other: JobRequest) -> bool:
    """Whether two jobs are the same work: same task, same payload, however it is written."""
    first, second = bytes(one.payload), bytes(other.payload)
    return one.task == other.task and (first == second or json.loads(first) == json.loads(second))


class JobEntries:
    """Jobs as they were stored."""

    def __init__(self, recaller: Recaller) -> None:
        self._recaller = recaller

    def cold(self, claims: Iterable[list[Claim]]) -> list[Claim]:
        return self._recaller.cold(claim for some in claims for claim in some)

    def fetch(self, claims: list[Claim], done: Callable[[NotConfirmed | None], None]) -> None:
        self._recaller.fetch(claims, done)

    def read(self, claim: Claim) -> StoredJob:
        entry = self._recaller.entry(claim)
        if entry is None:
            raise JobNotFound(job_id(claim.offset))
        return decode_job(entry)
