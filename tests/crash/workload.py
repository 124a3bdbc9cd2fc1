"""Producers and workers that go on whatever happens to their server, and write down what they saw."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable
from typing import Any

from tests.crash.history import History, Place, ReceivedLine, Settled
from tests.harness import Broken, Client, ServerProcess, Stream

TOPIC = "orders"
LEASE_MS = 1_500
REASON = "out of milk"
PAUSE_S = 0.02


class Actor(threading.Thread):
    """A thread that works until `stop`."""

    def __init__(self, name: str, server: ServerProcess, history: History, seed: str) -> None:
        super().__init__(name=name, daemon=True)
        self.server = server
        self.history = history
        self.chance = random.Random(f"{seed} {name}")
        self.stopping = threading.Event()
        self.client = Client(server.port)

    def stop(self) -> None:
        self.stopping.set()

    def until_answered(self, call: Callable[[], Any]) -> Any:
        """The answer, however many servers it takes; None when told to stop before."""
        while not self.stopping.is_set():
            try:
                answer = call()
            except Broken:
                self.stopping.wait(PAUSE_S)
                continue
            if answer.status != 503:
                return answer
            self.stopping.wait(PAUSE_S)
        return None


class Producer(Actor):
    """Sends numbered messages, each under its own idempotency key, until each is confirmed."""

    def run(self) -> None:
        number = 0
        while not self.stopping.is_set():
            count = self.chance.choice((1, 1, 1, 5))
            values = [f"{self.name}-{number + place}" for place in range(count)]
            number += count
            self._send(values)
            self.stopping.wait(self.chance.uniform(0.01, 0.05))

    def _send(self, values: list[str]) -> None:
        messages = [
            {"topic": TOPIC, "key": value, "value": value, "envelope": {"idempotency_key": value}}
            for value in values
        ]
        for value in values:
            self.history.sending(value)
        if len(messages) == 1:
            answer = self.until_answered(lambda: self.client.post("/v1/produce", messages[0]))
            results = [answer.body] if answer is not None else []
        else:
            answer = self.until_answered(
                lambda: self.client.post("/v1/produce/batch", {"messages": messages})
            )
            results = answer.body["results"] if answer is not None and answer.status == 200 else []
        if answer is not None and answer.status != 200:
            self.history.surprise(f"produce answered {answer.status}: {answer.body}")
            return
        for value, result in zip(values, results, strict=False):
            if result.get("status") == "produced":
                self.history.confirm(value, Place(result["partition"], result["offset"]))
            else:
                self.history.surprise(f"produce of {value} answered {result}")


class Worker(Actor):
    """Acks most of what it gets; sometimes nacks a first attempt, sometimes forgets one."""

    def __init__(
        self,
        name: str,
        server: ServerProcess,
        history: History,
        seed: str,
        *,
        group: str,
        careful: bool = False,
    ) -> None:
        super().__init__(name, server, history, seed)
        self.group = group
        self.calm = threading.Event()
        """From here on everything is acked."""
        if careful:
            self.calm.set()
        self._stream: Stream | None = None

    def run(self) -> None:
        while not self.stopping.is_set():
            try:
                self._stream = self.server.stream(TOPIC, self.group, self.name, lease_ms=LEASE_MS)
                for delivery in self._stream:
                    self._handle(delivery)
                    if self.stopping.is_set():
                        break
            except (*Broken, ValueError, AttributeError):
                pass  # The server died, perhaps in the middle of a line; http.client minds being closed.
            finally:
                if self._stream is not None:
                    self._stream.close()
            self.stopping.wait(PAUSE_S)

    def stop(self) -> None:
        super().stop()
        if self._stream is not None:
            self._stream.close()

    def _handle(self, delivery: dict[str, Any]) -> None:
        generation = self.server.starts
        place = Place(delivery["partition"], delivery["offset"])
        attempt = delivery["attempts"]
        seen = ReceivedLine(self.name, attempt, delivery["value"], delivery["last_error"])
        self.history.deliver(self.group, place, seen)
        fate = 1.0 if attempt > 1 or self.calm.is_set() else self.chance.random()
        if fate < 0.03:
            return  # Forgotten: its lease will end.
        holder = {"topic": TOPIC, "group": self.group, "owner": self.name, "attempt": attempt}
        body = {**holder, "partition": place.partition, "offset": place.offset}
        sent_at = time.monotonic()
        if fate < 0.1:
            answer = self.until_answered(lambda: self.client.post("/v1/nack", {**body, "reason": REASON}))
        else:
            answer = self.until_answered(lambda: self.client.post("/v1/ack", body))
        if answer is not None and answer.status not in (204, 409):
            self.history.surprise(f"settling {place} answered {answer.status}: {answer.body}")
        # A 409 may follow a success whose answer was lost, so it says nothing either.
        confirmed = answer is not None and answer.status == 204
        settled = Settled(attempt, confirmed, sent_at, time.monotonic())
        if fate < 0.1:
            self.history.nack(self.group, place, settled)
        else:
            self.history.ack(self.group, place, settled, outlived=self.server.starts > generation)
