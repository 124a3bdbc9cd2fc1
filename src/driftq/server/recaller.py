"""Reading back the messages that hold idempotency keys, so that a duplicate can be told for certain."""

from collections.abc import Callable

from driftq.core.keys import Claim
from driftq.core.state import State
from driftq.errors import LogCorrupt, NotConfirmed
from driftq.model import StoredMessage
from driftq.server.entry import decode_entry
from driftq.server.journal import Journal
from driftq.server.payloads import Payloads
from driftq.server.ports import Background
from driftq.server.requests import ProduceRequest


class Recaller:
    """Answers from memory; a request whose answer lies on a cold page waits for it off the loop."""

    def __init__(
        self,
        journal: Journal,
        payloads: Payloads,
        background: Background,
        *,
        again: Callable[[ProduceRequest, NotConfirmed | None], None],
        on_damage: Callable[[LogCorrupt], None],
    ) -> None:
        self._journal = journal
        self._payloads = payloads
        self._background = background
        self._again = again
        self._on_damage = on_damage
        self._fetched: dict[Claim, bytes] = {}
        self.waiting = 0
        """Requests whose reads are under way."""

    def recall(self, claim: Claim) -> StoredMessage:
        """The message of a claim; `warm` was asked for it before, or it is of this very turn."""
        entry = self._fetched.get(claim) or self._at_hand(claim)
        if entry is None:
            entry = self._read(claim)
        return decode_entry(entry)

    def warm(self, requests: list[ProduceRequest]) -> list[ProduceRequest]:
        """The requests that can be decided now; the others come again when their reads are done."""
        ready: list[ProduceRequest] = []
        self._fetched = {claim: entry for claim, entry in self._fetched.items() if entry}
        for request in requests:
            cold = [claim for claim in self._claims(request) if claim not in self._fetched]
            cold = [claim for claim in cold if self._at_hand(claim) is None]
            if cold:
                self._fetch(cold, request)
            else:
                ready.append(request)
        return ready

    def forget(self) -> None:
        """The decided requests have their answers: what was read for them may go, unless others wait."""
        if not self.waiting:
            self._fetched.clear()

    def _claims(self, request: ProduceRequest) -> list[Claim]:
        keys = self._journal.state.keys
        if keys.has_none([command.fingerprint for command in request.commands]):
            return []
        find = keys.find
        return [
            claim
            for command in request.commands
            if command.fingerprint
            for claim in find(command.fingerprint)
        ]

    def _index(self, claim: Claim):  # type: ignore[no-untyped-def]
        state: State = self._journal.state
        return state.topics_by_id[claim.topic].partitions[claim.partition].index

    def _at_hand(self, claim: Claim) -> bytes | None:
        try:
            entries = self._payloads.fetch(self._index(claim), [claim.ordinal])
        except LogCorrupt:
            return None  # Whoever reads it in earnest will say so.
        return entries[0] if entries else None

    def _read(self, claim: Claim) -> bytes:
        try:
            return self._payloads.read(self._index(claim), [claim.ordinal])[0]
        except LogCorrupt as damage:
            self._on_damage(damage)
            raise NotConfirmed(str(damage)) from damage
        except OSError as error:
            raise NotConfirmed(str(error)) from error

    def _fetch(self, claims: list[Claim], request: ProduceRequest) -> None:
        indexes = [self._index(claim) for claim in claims]

        def work() -> list[bytes]:
            return [
                self._payloads.read(index, [claim.ordinal])[0]
                for index, claim in zip(indexes, claims, strict=True)
            ]

        def done(entries: list[bytes] | Exception) -> None:
            self.waiting -= 1
            if isinstance(entries, LogCorrupt):
                self._on_damage(entries)
            if isinstance(entries, Exception):
                self._again(request, NotConfirmed(str(entries)))
                return
            self._fetched.update(zip(claims, entries, strict=True))
            self._again(request, None)

        self.waiting += 1
        self._background.read(work, done)
