"""Write a read model from a handler: the row keeps the newest message of its key, however often it runs.

A worker binds names to sinks. `upsert` stores a row under the offset of its message, or under the sequence
of its event: an attempt that is repeated, or late, changes nothing. The same lines work with any sink, such
as opensearch+http://127.0.0.1:9200/shop or redis://127.0.0.1:6379/0.
"""

import queue
import tempfile

import driftq
from driftq.sinks import open_sink

with tempfile.TemporaryDirectory() as folder, driftq.open(f"{folder}/data") as broker:
    broker.create_topic("prices")
    target = f"sqlite:///{folder}/read_models.db"
    settled: queue.Queue[driftq.Settled] = queue.Queue()
    worker = driftq.Worker(broker, group="search", sinks={"prices": target}, on_settled=settled.put)

    @worker.on("prices", effect=driftq.Effect.IDEMPOTENT, concurrency=1)
    def index(message: driftq.Message, context: driftq.Context) -> None:
        price = message.json()
        if price is None:
            context.sink("prices").delete()
        else:
            context.sink("prices").upsert({"euros": price})

    with worker:
        for drink, price in (("tea", 2), ("coffee", 3), ("tea", 4), ("coffee", None)):
            broker.produce("prices", price, key=drink)
            settled.get(timeout=10)

    model = open_sink(target).connect("prices")
    for row in model.rows():
        print(f"{row.aggregate_id} costs {row.state['euros']} euros, from message {row.sequence_number - 1}")
    model.close()
