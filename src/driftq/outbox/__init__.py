"""Jobs, messages and events written in your own transaction, and the relay that sends them.

    with psycopg.connect(url) as connection:                       # or sqlite3, SQLAlchemy, Django
        connection.execute("INSERT INTO orders …")
        driftq.outbox.enqueue(connection, send_receipt, order=17)  # a row beside yours
        driftq.outbox.produce(connection, "orders", {"id": 17}, key="order:17")

A row that is committed becomes exactly one job, message or event; a row that is rolled back becomes none. The
rows of one transaction keep their order. `driftq outbox run --database URL` runs the relay, and so does
`Outbox(URL, client).run()`.
"""

from driftq.outbox.relay import Outbox
from driftq.outbox.tables import create, ddl
from driftq.outbox.writing import append, append_async, enqueue, enqueue_async, produce, produce_async

__all__ = [
    "Outbox",
    "append",
    "append_async",
    "create",
    "ddl",
    "enqueue",
    "enqueue_async",
    "produce",
    "produce_async",
]
