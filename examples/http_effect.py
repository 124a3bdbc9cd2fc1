"""Call an HTTP API from a worker: every attempt carries one idempotency key, so the API performs it once.

The API here answers the first request too late: it performs the effect, and the worker does not get the
answer. The second attempt sends the same key, and the API answers as it did before. An API that knows no keys
gets `honours_keys=False`: then a lost answer makes the effect unknown, and an operator resolves it.
"""

import json
import queue
import tempfile
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import driftq

charged: dict[str, dict[str, int]] = {}


class Bank(BaseHTTPRequestHandler):
    """An API that honours keys: it stores the answer of each, and gives it to every repeat."""

    def do_POST(self) -> None:
        order = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        key = self.headers["Idempotency-Key"]
        is_first = key not in charged
        answer = charged.setdefault(key, {"charge": len(charged) + 1, "amount": order["amount"]})
        print(f"the bank is asked for {order['amount']} euros, first time: {is_first}")
        if is_first:
            return  # The connection closes without an answer.
        self.send_response(200)
        self.end_headers()
        self.wfile.write(json.dumps(answer).encode())

    def log_request(self, code: object = "-", size: object = "-") -> None: ...


bank_server = ThreadingHTTPServer(("127.0.0.1", 0), Bank)
threading.Thread(target=bank_server.serve_forever, daemon=True).start()
bank = driftq.HttpEffect(
    f"http://127.0.0.1:{bank_server.server_port}/charges",
    honours_keys=True,
    headers={"Authorization": "Bearer a-secret-that-no-error-shows"},
)

with tempfile.TemporaryDirectory() as folder, driftq.open(folder) as broker:
    broker.create_topic("orders")
    settled: queue.Queue[driftq.Settled] = queue.Queue()
    worker = driftq.Worker(broker, group="billing", on_settled=settled.put)

    @worker.on("orders", effect=driftq.Effect.IDEMPOTENT)
    def charge(message: driftq.Message, context: driftq.Context) -> dict[str, int]:
        charge: dict[str, int] = bank.post(context, json={"amount": message.json()["amount"]}).json()
        return charge

    with worker:
        broker.produce("orders", {"amount": 5}, retry_policy=driftq.RetryPolicy(backoff_ms=50))
        print(f"the handler got {settled.get(timeout=10).result}")
    print(f"the bank has {len(charged)} charge")

bank.close()
bank_server.shutdown()
bank_server.server_close()
