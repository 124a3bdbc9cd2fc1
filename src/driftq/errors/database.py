"""The SQL database and its tables."""

from __future__ import annotations

from driftq.errors.kinds import Unavailable


class DatabaseUnavailable(Unavailable):
    """The database cannot be reached or cannot write. `unconfirmed`: it went away during a commit."""

    reason = "database_unavailable"

    def __init__(self, address: str, *, cause: str, advice: str = "", unconfirmed: bool = False) -> None:
        doubt = "; the last commit may or may not have happened" if unconfirmed else ""
        hint = f": {advice}" if advice else ""
        super().__init__(f"the database {address} is not available ({cause}){hint}{doubt}")
        self.address = address
        self.cause = cause
        self.advice = advice
        self.unconfirmed = unconfirmed


class DatabaseDamaged(DatabaseUnavailable):
    """The database reports that its file is damaged, or returns text that is not valid."""

    reason = "database_damaged"


class DatabaseBusy(Unavailable):
    """Other transactions held the database, or the rows, beyond the wait limit. Nothing was changed."""

    reason = "database_busy"

    def __init__(self, address: str, *, waited_ms: int) -> None:
        super().__init__(f"the database {address} was busy for {waited_ms} ms")
        self.address = address
        self.waited_ms = waited_ms


class TransactionConflict(Unavailable):
    """The database rolled this transaction back in favour of another. Nothing was changed; repeat it."""

    reason = "transaction_conflict"

    def __init__(self, address: str, *, cause: str) -> None:
        super().__init__(f"the transaction on {address} has to be repeated ({cause})")
        self.address = address
        self.cause = cause


class SchemaError(Exception):
    """The tables of the database do not have the version that this release needs."""


class SchemaOutdated(SchemaError):
    def __init__(self, address: str, *, room: str, found: int, needed: int) -> None:
        super().__init__(
            f"the {room} tables in {address} are at version {found}, this release needs {needed}: "
            "run driftq db upgrade"
        )
        self.address = address
        self.room = room
        self.found = found
        self.needed = needed


class SchemaTooNew(SchemaError):
    def __init__(self, address: str, *, room: str, found: int, known: int) -> None:
        super().__init__(
            f"the {room} tables in {address} are at version {found}; this release knows up to {known}"
        )
        self.address = address
        self.room = room
        self.found = found
        self.known = known


class DatabaseUnsuitable(SchemaError):
    """The database lacks something that DriftQ requires."""

    def __init__(self, address: str, *, problem: str) -> None:
        super().__init__(f"the database {address} cannot be used: {problem}")
        self.address = address
        self.problem = problem
