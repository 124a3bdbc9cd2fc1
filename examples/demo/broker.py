"""The broker's part of the story: a real server, killed with SIGKILL in the middle of its work.

Producers send orders, each under its own idempotency key, until each is confirmed. Workers have an effect for
each order and ack it. The server is killed while all are busy; a new one takes its folder; then we count.
"""

from __future__ import annotations

import json
import threading
import time
from collections import Counter
from typing import Any

from driftq.cli.connection import Connection
from driftq.errors import DriftQError
from examples.demo.screen import add_verdict, show, table, tell, wait_until
from examples.demo.server import Server

ORDERS_PER_PRODUCER = 200
PRODUCERS = 3
WORKERS = 3
PARTITIONS = 3
CONSUME: dict[str, str | int | None] = {
    "topic": "orders",
    "group": "kitchen",
    "lease_ms": 6_000,
    "prefetch": 20,
}
WAIT_S = 300.0


class Producer(threading.Thread):
    """Sends each order until it is confirmed: no answer is not a no, and the key makes asking again safe."""

    def __init__(self, name: str, url: str) -> None:
        super().__init__(name=name, daemon=True)
        self._connection = Connection(url)
        self.confirmed: set[str] = set()
        self.repeats = 0

    def run(self) -> None:
        for number in range(ORDERS_PER_PRODUCER):
            order = f"{self.name}/{number}"
            message: dict[str, Any] = {"topic": "orders", "key": order, "value": order}
            message["envelope"] = {"idempotency_key": order}
            while order not in self.confirmed:
                try:
                    self._connection.post("/v1/produce", message)
                    self.confirmed.add(order)
                except DriftQError:
                    self.repeats += 1
                    time.sleep(0.05)


class Worker(threading.Thread):
    """Has the effect, then acks until that is confirmed. A place it has dealt with has no second effect."""

    def __init__(self, name: str, url: str, done: Done) -> None:
        super().__init__(name=name, daemon=True)
        self._url = url
        self._settling = Connection(url)
        self._done = done
        self.holds = False
        self.acked_late = 0

    def run(self) -> None:
        query = {**CONSUME, "owner": self.name}
        while True:
            try:
                for line in Connection(self._url, timeout_s=None).lines("/v1/consume", query):
                    self._work(json.loads(line))
            except DriftQError:
                time.sleep(0.05)

    def _work(self, delivery: dict[str, Any]) -> None:
        self._done.effect(delivery)
        waited = not self._done.go_on.is_set()
        self.holds = waited
        self._done.go_on.wait()
        ack = {"topic": "orders", "group": "kitchen", "owner": self.name, "attempt": delivery["attempts"]}
        ack |= {"partition": delivery["partition"], "offset": delivery["offset"]}
        while True:
            try:
                self._settling.post("/v1/ack", ack)
                self.acked_late += waited
                return
            except DriftQError as failure:
                if failure.status == 409:
                    return  # Too late: it will come again, and be recognised.
                time.sleep(0.05)


class Done:
    """What happened in the world outside the broker."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._places: set[tuple[int, int]] = set()
        self.effects: Counter[str] = Counter()
        self.deliveries = 0
        self.recognised = 0
        self.go_on = threading.Event()
        self.go_on.set()

    def effect(self, delivery: dict[str, Any]) -> None:
        place = (delivery["partition"], delivery["offset"])
        with self._lock:
            self.deliveries += 1
            self.recognised += place in self._places
            self.effects[delivery["value"]] += place not in self._places
            self._places.add(place)


def stored(url: str) -> Counter[str]:
    """How often each order is in the topic, read from the log without a group."""
    found: Counter[str] = Counter()
    for partition in range(PARTITIONS):
        query = {"partition": partition, "from": 0, "limit": 10 * PRODUCERS * ORDERS_PER_PRODUCER}
        lines = Connection(url).lines("/v1/topics/orders/records", query)
        found.update(json.loads(line)["value"] for line in lines)
    return found


def tell_broker_story(server: Server) -> bool:
    """True when nothing was lost and nothing doubled."""
    total = PRODUCERS * ORDERS_PER_PRODUCER
    Connection(server.url).post("/v1/topics", {"name": "orders", "partitions": PARTITIONS})
    tell(f"A server listens on {server.url}. Topic [b]orders[/b] has {PARTITIONS} partitions.")
    tell(f"{PRODUCERS} producers send {total} orders; {WORKERS} workers handle and ack them.")
    done = Done()
    producers = [Producer(f"producer-{number}", server.url) for number in range(1, PRODUCERS + 1)]
    workers = [Worker(f"worker-{number}", server.url, done) for number in range(1, WORKERS + 1)]
    for actor in (*producers, *workers):
        actor.start()

    def confirmed() -> int:
        return sum(len(one.confirmed) for one in producers)

    def orders() -> str:
        return f"{confirmed()} of {total} confirmed, {done.deliveries} delivered"

    wait_until("producers send", lambda: confirmed() > total / 3, within_s=WAIT_S, how_far=orders)
    done.go_on.clear()
    wait_until(
        "each worker takes an order",
        lambda: all(worker.holds for worker in workers),
        within_s=WAIT_S,
        how_far=orders,
    )
    before = orders()
    server.kill()
    tell(f"[red]kill -9[/red] for the server: {before}.")
    server.start()
    tell("A new server opens the same folder. Producers repeat what was not confirmed; workers go on.")
    done.go_on.set()
    view = Connection(server.url)

    def lag() -> int:
        return sum(row["lag"] for row in view.get("/v1/topics/orders")["groups"])

    wait_until(
        "producers and workers finish",
        lambda: not any(one.is_alive() for one in producers) and lag() == 0,
        within_s=WAIT_S,
        how_far=orders,
    )
    tell("Every order is acked.")
    return show_counts(producers, workers, done, stored(server.url))


def show_counts(producers: list[Producer], workers: list[Worker], done: Done, in_log: Counter[str]) -> bool:
    confirmed = [order for producer in producers for order in producer.confirmed]
    counts = table("what happened to the orders", "orders", "count")
    for what, number in (
        ("produced", PRODUCERS * ORDERS_PER_PRODUCER),
        ("confirmed", len(confirmed)),
        ("produces repeated because no answer came", sum(producer.repeats for producer in producers)),
        ("stored", sum(in_log.values())),
        ("delivered", done.deliveries),
        ("delivered again and recognised by the worker", done.recognised),
        ("delivered before the kill, acked after it", sum(worker.acked_late for worker in workers)),
        ("effects", sum(done.effects.values())),
    ):
        counts.add_row(what, str(number))
    lost = [order for order in confirmed if not done.effects[order] or not in_log[order]]
    doubled = [order for order in {*in_log, *done.effects} if in_log[order] > 1 or done.effects[order] > 1]
    sound = add_verdict(counts, lost=lost, doubled=doubled, cells=2)
    show(counts)
    return sound and len(confirmed) == PRODUCERS * ORDERS_PER_PRODUCER
