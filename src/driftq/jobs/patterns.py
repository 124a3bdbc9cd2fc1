"""Three ways to make a job idempotent in its own database: key check, upsert, conditional update.

A job runs at least once, so its handler may run twice. Each of these does its work in the caller's
transaction and returns whether anything changed. Names of tables and columns come from the program, never
from a user; they must be plain names. Values are bound.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from sqlalchemy import text

from driftq.errors import InvalidArgument
from driftq.sql import perform

if TYPE_CHECKING:
    from driftq.sql import Database, Transaction

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)?")

Result = TypeVar("Result")


class ProcessedTrace(Protocol):
    """A record of completed jobs, such as `driftq.registry.processed_jobs.ProcessedJobs`."""

    def record(
        self, job_key: str, *, result_hash: str = "", transaction: Transaction | None = None
    ) -> bool: ...


def once(
    database: Database, processed: ProcessedTrace, job_key: str, change: Callable[[Transaction], Result]
) -> Result | None:
    """Key check: make the change unless the key is recorded, both in one transaction.

    `job_key` is the job's id, or better a business key: "invoice-17". Returns None for a duplicate.
    A change that raises records nothing.
    """

    def attempt(transaction: Transaction) -> Result | None:
        if not processed.record(job_key, transaction=transaction):
            return None
        return change(transaction)

    return perform(database, attempt)


def upsert(
    transaction: Transaction, table: str, *, key: Mapping[str, Any], values: Mapping[str, Any]
) -> None:
    """Insert the row of this key, or update it to these values; `key` must be unique in the table."""
    given = _bound(key, "key") | _bound(values, "value")
    columns = ", ".join([*map(_plain, key), *map(_plain, values)])
    places = ", ".join(f":{name}" for name in given)
    unique = ", ".join(map(_plain, key))
    change = ", ".join(f"{_plain(column)} = excluded.{_plain(column)}" for column in values)
    action = f"UPDATE SET {change}" if change else "NOTHING"
    _run(
        transaction,
        f"INSERT INTO {_plain(table)} ({columns}) VALUES ({places}) ON CONFLICT ({unique}) DO {action}",
        given,
    )


def update_if(
    transaction: Transaction,
    table: str,
    *,
    key: Mapping[str, Any],
    expected: Mapping[str, Any],
    values: Mapping[str, Any],
) -> bool:
    """Conditional update: change the row only while it has the expected values, such as `state = 'unpaid'`.

    False when it does not, or when there is no such row: the change was made before, or is not allowed.
    """
    given = _bound(values, "value") | _bound(key, "key") | _bound(expected, "expected")
    change = ", ".join(f"{_plain(column)} = :value_{column}" for column in values)
    where = [f"{_plain(column)} = :key_{column}" for column in key]
    where += [f"{_plain(column)} = :expected_{column}" for column in expected]
    statement = f"UPDATE {_plain(table)} SET {change} WHERE {' AND '.join(where)}"
    return _run(transaction, statement, given) > 0


def compare_and_set(
    transaction: Transaction,
    table: str,
    *,
    key: Mapping[str, Any],
    expected_version: int,
    values: Mapping[str, Any],
    column: str = "version",
) -> bool:
    """Version-checked update: change the row only at this version, and move it to the next.

    False when the row has moved on: this change was made before, or another worker was faster.
    """
    return update_if(
        transaction,
        table,
        key=key,
        expected={column: expected_version},
        values={**values, column: expected_version + 1},
    )


def _run(transaction: Transaction, statement: str, given: Mapping[str, Any]) -> int:
    return transaction.connection.execute(text(statement), dict(given)).rowcount


def _bound(values: Mapping[str, Any], kind: str) -> dict[str, Any]:
    return {f"{kind}_{_plain(column)}": value for column, value in values.items()}


def _plain(name: str) -> str:
    if not _NAME.fullmatch(name):
        raise InvalidArgument("name", f"{name!r} is not a valid name of a table or column")
    return name
