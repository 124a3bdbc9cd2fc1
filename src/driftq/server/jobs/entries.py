"""Jobs read back as they were stored."""

from collections.abc import Callable, Iterable

from driftq.core.keys import Claim
from driftq.errors import JobNotFound, NotConfirmed
from driftq.model.job import StoredJob, job_id
from driftq.server.lookup import Recaller
from driftq.storage.job_entry import decode_job


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
