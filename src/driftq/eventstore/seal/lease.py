"""The right to assign positions and to write segments: one holder at a time, fenced by a growing token.

The lease only keeps two sealers from disturbing each other. The token keeps the log safe: every change is
made in a transaction that first checks the token and then holds its row, so a sealer that was paused or cut
off can do nothing more, whatever the clocks say.
"""

import time
from collections.abc import Callable
from typing import TypeVar

from driftq.errors import SealerReplaced
from driftq.sql import Database, Queries, Transaction, perform

Result = TypeVar("Result")

_PARTS = 3
"""An idle sealer extends its lease after this part of it."""


class SealerLease:
    """One sealer's claim to the log; not held until taken."""

    def __init__(self, database: Database, queries: Queries, *, owner: str, lease_ms: int) -> None:
        self._database = database
        self._queries = queries
        self._owner = owner
        self._lease_ms = lease_ms
        self._token = 0
        self._keep_at = 0.0

    def take(self, *, force: bool = False) -> bool:
        """Become the one sealer unless another one's lease runs; `force` does not wait for its end.

        Force is for a process that is certainly alone, such as a server that has locked its folder.
        """
        with self._database.transaction() as transaction:
            row = transaction.row(
                self._queries["take_lease"], owner=self._owner, lease_ms=self._lease_ms, force=int(force)
            )
        self._token = row.token if row else 0
        return row is not None

    def fenced(self, work: Callable[[Transaction], Result]) -> Result:
        """Run work in a transaction that only the current holder can commit; extends the lease."""

        def guarded(transaction: Transaction) -> Result:
            if not transaction.run(self._queries["keep_lease"], token=self._token, lease_ms=self._lease_ms):
                raise SealerReplaced(owner=self._owner, token=self._token)
            self._keep_at = time.monotonic() + self._lease_ms / 1000 / _PARTS
            return work(transaction)

        return perform(self._database, guarded)

    def look(self, snapshot: Transaction) -> None:
        """Raise SealerReplaced if another sealer has taken over; this gives no right to change anything."""
        holder = snapshot.row(self._queries["lease_holder"])
        if holder is None or holder.token != self._token:
            raise SealerReplaced(owner=self._owner, token=self._token)

    def keep(self) -> None:
        """Extend the lease, if a good part of it has passed; raises SealerReplaced."""
        if time.monotonic() >= self._keep_at:
            self.fenced(lambda _: None)

    def end(self) -> None:
        """Release the lease at once; no effect if another sealer already has it."""
        with self._database.transaction() as transaction:
            transaction.run(self._queries["end_lease"], token=self._token)
        self._token = 0
