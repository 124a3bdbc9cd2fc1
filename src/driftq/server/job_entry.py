"""The stored form of a job, and reading it back."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import msgspec

from driftq.core.jobs.table import JobState, JobTable
from driftq.core.keys import Claim
from driftq.errors import JobNotFound, NotConfirmed
from driftq.model.job import JobRequest, StoredJob
from driftq.server.entry import PREFIX_BYTES, encode_text, encode_time
from driftq.server.recaller import Recaller

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
            raise JobNotFound(claim.offset)
        return decode_job(entry)

    @staticmethod
    def state_name(jobs: JobTable, offset: int, now: int) -> str:
        """What the wire calls the state of a job."""
        state = jobs.state(offset)
        if state is None:
            raise JobNotFound(offset)
        if state is JobState.WAITING:
            return "scheduled" if jobs.due[offset - jobs.base] > now else "ready"
        return state.name.lower()
