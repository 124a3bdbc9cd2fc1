"""Consume streams of the simulation, and the workers behind them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import msgspec

from driftq.core.lease import Credit
from driftq.model import DeliveryLine
from driftq.testing.check_delivered import Listener

_decoder = msgspec.json.Decoder(DeliveryLine)


@dataclass(frozen=True, slots=True)
class Hand:
    """A delivery that a worker holds."""

    topic: str
    group: str
    delivery: DeliveryLine


@dataclass(slots=True)
class SimWorker:
    """A worker with an owner name, which may outlive the server."""

    owner: str
    hands: list[Hand] = field(default_factory=list)
    done: list[Hand] = field(default_factory=list)
    """Deliveries that it has acked, to be acked once more or too late."""


class SimConsumer:
    """An open stream. A delivery reaches its worker at once; while paused, its socket is full."""

    def __init__(
        self,
        listener: Listener,
        worker: SimWorker,
        *,
        on_delivery: Callable[[SimConsumer, DeliveryLine], None],
        prefetch: int = 100,
        latest: bool = False,
    ) -> None:
        self.topic = listener.topic
        self.group = listener.group
        self.owner = listener.owner
        self.lease_ms = listener.lease_ms
        self.release_on_close = listener.release_on_close
        self.prefetch = prefetch
        self.prefetch_bytes = 1 << 20
        self.latest = latest
        self.credit = Credit()
        self.listener = listener
        self.worker = worker
        self.paused_at: int | None = None
        self.open = True
        self.refused = False
        self._on_delivery = on_delivery

    def send(self, lines: bytes) -> None:
        for line in lines.splitlines():
            self._on_delivery(self, _decoder.decode(line))

    def unsent_bytes(self) -> int:
        return 0 if self.paused_at is None else 1 << 20

    def end(self) -> None:
        self.open = False
