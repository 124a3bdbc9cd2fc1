"""An application that writes its own rows and the outbox's, to be killed at any moment.

`python application.py DATABASE SEED`: endless transactions. Each writes a row in `shop` that says how many
rows it wrote to the outbox, between them, and commits or rolls back. Stops when `enough` has a row.
"""

import random
import sqlite3
import sys
import uuid
from typing import Any

import psycopg

import driftq
from driftq import outbox
from driftq.worker import Task
from driftq.worker.running.client_loop import ClientLoop

ROWS_MAX = 20


def kind_of(i: int) -> int:
    """Of the i-th row of a transaction: runs of two, so that requests take one row or several."""
    return (i // 2) % 3


def send(tx: str, i: int) -> None: ...


def main(database: str, seed: str) -> None:
    chance = random.Random(seed)
    # A task needs no server to be written down; nothing listens at this address.
    with driftq.Client("http://127.0.0.1:9") as client:
        task = Task(ClientLoop(client), send, name="send", queue="mail", max_retries=None, timeout_ms=None)
        connection, mark = connect(database)
        while not connection.execute("SELECT 1 FROM enough").fetchone():
            connection.rollback()
            transact(connection, mark, task, chance)


def connect(database: str) -> tuple[Any, str]:
    if database.startswith("sqlite"):
        return sqlite3.connect(database.removeprefix("sqlite:///"), timeout=60), "?"
    return psycopg.connect(database), "%s"


def transact(connection: Any, mark: str, task: Task[..., Any], chance: random.Random) -> None:
    tx, count = uuid.uuid4().hex, chance.randint(1, ROWS_MAX)
    counted_at = chance.randrange(count + 1)
    for i in range(count + 1):
        if i == counted_at:
            connection.execute(f"INSERT INTO shop (tx, count) VALUES ({mark}, {mark})", (tx, count))
        if i == count:
            break
        match kind_of(i):
            case 0:
                outbox.produce(connection, "orders", {"tx": tx, "i": i}, key=tx)
            case 1:
                outbox.enqueue(connection, task, tx=tx, i=i)
            case _:
                event = driftq.Event(
                    event_id=f"{tx}-{i}",
                    aggregate_type="order",
                    aggregate_id=tx,
                    event_type="changed",
                    kind="order",
                    payload={"tx": tx, "i": i},
                )
                outbox.append(connection, event)
    if chance.random() < 0.2:
        connection.rollback()
    else:
        connection.commit()


if __name__ == "__main__":
    main(*sys.argv[1:])
