"""The demo's app: a handler that ships each order once, in the transaction that marks its event done.

The table has no key that would hide a second row: if an effect came twice, it would be counted twice.
"""

from __future__ import annotations

import os

import driftq
from driftq.pipeline import App, PublishedEvent, WorkerContext

TABLE = (
    "CREATE TABLE shipments (event_id TEXT NOT NULL, order_id TEXT NOT NULL, sequence_number INT NOT NULL)"
)
RUNS_FILE = "SHOP_RUNS_FILE"

app = App()


@app.worker(topics=["events.order"], effect=driftq.Effect.TRANSACTIONAL)
def ship(event: PublishedEvent, context: WorkerContext) -> None:
    with open(os.environ[RUNS_FILE], "a", encoding="utf-8") as runs:  # Written even if the rest is undone.
        runs.write(f"{event.event_id}\n")
    assert context.transaction is not None
    row = (event.event_id, event.aggregate_id, event.sequence_number)
    context.transaction.connection.exec_driver_sql("INSERT INTO shipments VALUES (?, ?, ?)", row)
