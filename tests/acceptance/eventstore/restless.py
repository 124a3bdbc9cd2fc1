"""A writer on SQLite whose journal is emptied nearly all the time: it tells each number once it is durable.

Run with the path of the database and the number to begin after; it goes on until it is killed.
"""

import sys
from functools import partial

from sqlalchemy import text

from driftq.sql import sqlite
from driftq.sql.checkpoints import Checkpoints

ROWS = 40
TEXT = "x" * 400


def main(path: str, last: int) -> None:
    setattr(sqlite, "Checkpoints", partial(Checkpoints, step_pages=8, restart_pages=32))  # noqa: B010
    database = sqlite.SqliteDatabase(path)
    with database.transaction() as transaction:
        transaction.connection.execute(
            text("CREATE TABLE IF NOT EXISTS numbers (n INTEGER PRIMARY KEY, text TEXT NOT NULL)")
        )
    while True:
        with database.transaction() as transaction:
            transaction.connection.execute(
                text("INSERT INTO numbers VALUES (:n, :text)"),
                [{"n": last + nth, "text": TEXT} for nth in range(1, ROWS + 1)],
            )
        last += ROWS
        print(last, flush=True)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
