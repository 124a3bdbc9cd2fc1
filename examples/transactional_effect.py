"""Write to your own table and mark the message as done in one SQLite transaction.

The first attempt below fails after its INSERT, and the rollback takes the row with it. So the effect
happens exactly once, without a key or a check in your own SQL.
"""

import logging
import queue
import sqlite3
import tempfile
from contextlib import closing

from sqlalchemy import text

import driftq
from driftq.registry.sql_registry import SqlRegistry
from driftq.sql import open_database

logging.disable(logging.ERROR)  # The worker logs the failure with its traceback; here it is intended.

with tempfile.TemporaryDirectory() as folder, driftq.open(folder) as broker:
    with closing(sqlite3.connect(f"{folder}/shop.db")) as shop:
        shop.execute("CREATE TABLE bookings (invoice TEXT, amount INTEGER)")
    registry = SqlRegistry(open_database(f"sqlite:///{folder}/shop.db"))
    settled: queue.Queue[driftq.Settled] = queue.Queue()
    worker = driftq.Worker(broker, group="ledger", registry=registry, on_settled=settled.put)

    @worker.on("payments", effect=driftq.Effect.TRANSACTIONAL)
    def book(message: driftq.Message, context: driftq.Context) -> None:
        assert context.transaction is not None
        insert = text("INSERT INTO bookings VALUES (:invoice, :amount)")
        context.transaction.connection.execute(insert, message.json())
        print(f"attempt {context.attempt} inserted its row")
        if context.attempt == 1:
            raise RuntimeError("the process fails before its commit")

    broker.create_topic("payments")
    broker.produce("payments", {"invoice": "2041", "amount": 12}, idempotency_key="invoice-2041")
    worker.start()
    settled.get(timeout=10)
    worker.stop()

    with closing(sqlite3.connect(f"{folder}/shop.db")) as shop:
        print(f"rows in the table: {shop.execute('SELECT * FROM bookings').fetchall()}")
