"""Jobs read back as they were stored."""

from collections.abc import Callable, Iterable

from driftq.core.keys import MessageRef
from driftq.errors import JobNotFound, NotConfirmed
from driftq.model.job import StoredJob, job_id
from driftq.server.lookup import MessageLookup
from driftq.storage.job_entry import decode_job


class JobEntries:
    """Jobs as they were stored."""

    def __init__(self, lookup: MessageLookup) -> None:
        self._lookup = lookup

    def cold(self, claims: Iterable[list[MessageRef]]) -> list[MessageRef]:
        return self._lookup.cold(claim for some in claims for claim in some)

    def fetch(self, claims: list[MessageRef], done: Callable[[NotConfirmed | None], None]) -> None:
        self._lookup.fetch(claims, done)

    def read(self, claim: MessageRef) -> StoredJob:
        entry = self._lookup.entry(claim)
        if entry is None:
            raise JobNotFound(job_id(claim.offset))
        return decode_job(entry)
