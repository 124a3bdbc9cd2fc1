"""What a database's complaint means to the caller: gone, busy, to be repeated, or a mistake of ours."""

from sqlalchemy import exc

from driftq.errors import (
    DatabaseBusy,
    DatabaseDamaged,
    DatabaseUnavailable,
    DriftQError,
    TransactionConflict,
)

# Primary result codes of SQLite.
_SQLITE_BUSY = {5, 6}
_SQLITE_READ_ONLY = 8
_SQLITE_AWAY = {_SQLITE_READ_ONLY, 10, 13, 14}  # I/O error, full, cannot open
_SQLITE_DAMAGED = {11, 26}  # corrupt, not a database
_NO_TEXT = "Could not decode to UTF-8"
"""How Python's sqlite3 begins to tell of a text that is none; the text itself follows."""

_SQLITE_ADVICE = {
    _SQLITE_READ_ONLY: "let this user write it",
    14: "name a file in a folder that this user may write",
    26: "name another file",
}
_CONNECTING_ADVICE = (
    ("no password", "put user:password@ before the host"),
    ("password", "check user and password"),
    ("pg_hba.conf", "let this user and this host in"),
    ("does not exist", "create it, or correct the address"),
    ("resolve host", "check the host"),
    ("SSL", "check sslmode and its certificates"),
)
"""By what libpq says when it cannot connect, which has no SQLSTATE then. Only people read the advice."""

# SQLSTATE of PostgreSQL. 25006: the server became read-only, as a demoted primary does.
_REPEAT = {"40001", "40P01"}
_BUSY = {"55P03"}
_READ_ONLY = "25006"
_AWAY = ("08", "53", "57P", "58", _READ_ONLY)


def translate(
    error: exc.SQLAlchemyError,
    *,
    address: str,
    waited_ms: int,
    committing: bool = False,
    reading: bool = False,
) -> DriftQError | None:
    """The error to raise instead, or None where the complaint is about the statement itself.

    `reading`: the transaction was opened for reading only, and a refused write is the caller's mistake.
    """
    if isinstance(error, exc.TimeoutError):
        return DatabaseBusy(address, waited_ms=waited_ms)
    if not isinstance(error, exc.DBAPIError):
        return None
    cause = error.orig
    said = str(cause).strip().splitlines()[0] if str(cause).strip() else type(cause).__name__
    sqlite_code: int | None = getattr(cause, "sqlite_errorcode", None)
    state: str | None = getattr(cause, "sqlstate", None)
    advice = _advice(said, sqlite_code=sqlite_code, connecting=state is None)
    away = DatabaseUnavailable(address, cause=said, advice=advice, unconfirmed=committing)
    if sqlite_code is not None:
        if reading and sqlite_code & 0xFF == _SQLITE_READ_ONLY:
            return None
        if sqlite_code & 0xFF in _SQLITE_BUSY:
            return DatabaseBusy(address, waited_ms=waited_ms)
        if sqlite_code & 0xFF in _SQLITE_DAMAGED:
            return DatabaseDamaged(address, cause=said, advice=advice, unconfirmed=committing)
        return away if sqlite_code & 0xFF in _SQLITE_AWAY else None
    if said.startswith(_NO_TEXT):
        return DatabaseDamaged(address, cause=said.partition(" with text")[0])
    if reading and state == _READ_ONLY:
        return None
    if state in _REPEAT:
        return TransactionConflict(address, cause=said)
    if state in _BUSY:
        return DatabaseBusy(address, waited_ms=waited_ms)
    if error.connection_invalidated or (state or "").startswith(_AWAY):
        return away
    # Without a SQLSTATE the server never answered: the connection could not be made.
    return away if state is None and isinstance(error, exc.OperationalError) else None


def _advice(said: str, *, sqlite_code: int | None, connecting: bool) -> str:
    """What to do about it; empty where the complaint itself says so, or where it passes."""
    if sqlite_code is not None:
        return _SQLITE_ADVICE.get(sqlite_code & 0xFF, "")
    found = (advice for part, advice in _CONNECTING_ADVICE if part in said)
    return next(found, "") if connecting else ""
