"""Let a worker handle a message whose effect was committed before: the handler does not run again.

Any message can be delivered twice, for example after a crash or a reset of its group. The worker commits
the result of each effect under the message's key, and a second delivery gets that result.
"""

import queue
import tempfile

import driftq

with tempfile.TemporaryDirectory() as folder, driftq.open(folder) as broker:
    broker.create_topic("payments")
    settled: queue.Queue[driftq.Settled] = queue.Queue()
    worker = driftq.Worker(broker, group="billing", on_settled=settled.put)

    @worker.on("payments", effect=driftq.Effect.IDEMPOTENT)
    def charge(message: driftq.Message, context: driftq.Context) -> dict[str, str]:
        print(f"charging {message.json()['amount']} euros, attempt {context.attempt}")
        return {"charge_id": "ch-1"}

    broker.produce("payments", {"amount": 5}, idempotency_key="order-1")
    worker.start()
    first = settled.get(timeout=10)
    print(f"first delivery: {first.result}, duplicate: {first.duplicate}")
    worker.stop()

    broker.reset_group("payments", "billing", to="earliest")
    worker.start()
    second = settled.get(timeout=10)
    print(f"second delivery: {second.result}, duplicate: {second.duplicate}")
    worker.stop()
