"""Write a job in your own SQLite transaction, and let the relay send it: committed once, rolled back never.

The first order is rolled back, and its job with it. The second is committed; the relay sends its job, and
running the relay again sends nothing more.
"""

import sqlite3
import tempfile
from contextlib import closing

import driftq
from driftq import outbox

with tempfile.TemporaryDirectory() as folder, driftq.open(folder) as broker:
    jobs = driftq.Jobs(broker)

    @jobs.task(queue="receipts")
    def send_receipt(order: int) -> None: ...

    with closing(sqlite3.connect(f"{folder}/shop.db")) as shop:
        shop.execute("CREATE TABLE orders (id INTEGER)")
        outbox.create(shop)
        shop.commit()

        shop.execute("INSERT INTO orders VALUES (1)")
        outbox.enqueue(shop, send_receipt, order=1)
        shop.rollback()

        shop.execute("INSERT INTO orders VALUES (2)")
        outbox.enqueue(shop, send_receipt, order=2)
        shop.commit()

    relay = outbox.Outbox(f"sqlite:///{folder}/shop.db", broker)
    print(f"the relay sent {relay.run(once=True)} row, then {relay.run(once=True)}")
    print(f"jobs in the queue: {[job.payload for job in broker.jobs.list(queue='receipts')]}")
