"""The demo's events: the lives of many orders, appended by one patient writer, and what must come of them."""

from __future__ import annotations

import threading
import time
from typing import Any

import driftq

ORDERS = 40
CHANGES = 14
TYPE = "order"
_GIVE_UP_S = 10.0


def life_of(number: int) -> list[driftq.Event]:
    """An order is opened and changed; every fifth one is cancelled at last."""
    order = f"order-{number:03}"
    steps = [("opened", driftq.Operation.CREATE, {"items": 0})]
    steps += [("changed", driftq.Operation.UPDATE, {"items": items}) for items in range(1, CHANGES)]
    if number % 5 == 0:
        steps.append(("cancelled", driftq.Operation.DELETE, {}))
    return [
        driftq.Event(
            event_id=f"{order}/{place}",
            aggregate_type=TYPE,
            aggregate_id=order,
            event_type=f"order.{what}",
            kind="command",
            operation=operation,
            payload=payload,
        )
        for place, (what, operation, payload) in enumerate(steps)
    ]


def expected_rows(lives: list[list[driftq.Event]]) -> dict[str, tuple[int, Any]]:
    """The read model that must come of it: sequence and newest state of each order that was not cancelled."""
    return {
        life[-1].aggregate_id: (len(life), life[-1].payload)
        for life in lives
        if life[-1].operation is not driftq.Operation.DELETE
    }


class Writer(threading.Thread):
    """Appends all lives side by side. Without an answer it asks again: the event's id makes that safe."""

    def __init__(self, url: str) -> None:
        super().__init__(name="writer", daemon=True)
        self._url = url
        self.lives = [life_of(number) for number in range(ORDERS)]
        self.total = sum(map(len, self.lives))
        self.go_on = threading.Event()
        """Set when the second half may follow."""
        self.appended = 0
        self._given_up = False

    def run(self) -> None:
        try:
            self._append_all()
        except Exception:
            if not self._given_up:  # Else the demo ended in the middle of a call.
                raise

    def give_up(self) -> None:
        """Append no more; returns soon, also when it waits for a server."""
        self._given_up = True
        self.go_on.set()
        if self.is_alive():
            self.join(_GIVE_UP_S)

    def _append_all(self) -> None:
        with driftq.EventStore(self._url) as store:
            for place in range(max(map(len, self.lives))):
                for life in self.lives:
                    if self.appended == self.total // 2:
                        self.go_on.wait()
                    if place < len(life):
                        self._append(store, life[place], place)

    def _append(self, store: driftq.EventStore, event: driftq.Event, expected_seq: int) -> None:
        while not self._given_up:
            try:
                store.append(event, expected_seq=expected_seq)
                self.appended += 1
                return
            except driftq.Unavailable:
                time.sleep(0.05)
