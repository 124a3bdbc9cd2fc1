"""What all connections of one server share: the broker, the limits on clients, and their slots."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Coroutine
from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING, Any, Protocol

from driftq.errors import DriftQError, ShuttingDown
from driftq.http.wire.exchange import Exchange, Heads
from driftq.http.wire.hosts import HostRule
from driftq.http.wire.parser import HeadCache
from driftq.server.broker import Broker
from driftq.server.registry_claims import RegistryClaims

if TYPE_CHECKING:
    from driftq.http.api.guard import Guard
    from driftq.http.ui.live import LiveFeed
    from driftq.http.wire.connection import ServerConnection


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpOptions:
    """Limits and facts of one server."""

    version: str = "dev"
    commit: str = "unknown"
    instance: str = ""
    """The id of this start of the server, also stored in its folder; empty when there is none."""
    cluster_id: str = ""
    """The identity of the data folder; empty when topics have no ids."""
    body_bytes_max: int = 16 << 20
    stranger_bytes_max: int = 64 << 10
    """With keys, a larger body is not read from a client that has none: it is refused by its head."""
    head_bytes_max: int = 32 << 10
    """All headers of one request together."""
    url_bytes_max: int = 16 << 10
    connections_max: int = 1_024
    outstanding_max: int = 128
    """Pending requests of one connection; beyond that, the server stops reading from it."""
    batch_max: int = 100_000
    """Messages or acks in one request."""
    head_s: int = 10
    """The time within which the head of a request must arrive."""
    body_window_s: int = 10
    body_bytes_per_s_min: int = 1 << 10
    """The least of a body that must arrive in any window of the length above."""
    keep_alive_s: int = 90
    """A connection without a request is closed after this."""
    allowed_hosts: tuple[str, ...] = ()
    """Host names of this server, besides the one it is bound to and localhost."""
    write_high_bytes: int = 256 << 10
    write_low_bytes: int = 64 << 10
    keys_file: str | None = None
    """The API keys that requests must carry; None: none is needed."""
    audit_file: str | None = None
    """Where admin actions are logged, if there are keys; None: nowhere."""
    tls_cert: str | None = None
    """With it the server speaks HTTPS only."""
    tls_key: str | None = None
    tls_client_ca: str | None = None
    in_process: bool = False
    """The clients are part of this process: they may send what others may not."""
    prefetch: int = 100
    prefetch_bytes: int = 1 << 20


class ConnectionSlots:
    """The slots of connections, and which connection loses its slot when all are taken.

    A new connection gets the slot of the one that has been idle longest, else that of the slowest incoming
    request. Streams, and requests that wait for their replies, keep theirs. The candidates are computed once
    for many new connections, and where there is none, a second later at the earliest. A connection that is
    closing holds no slot.
    """

    def __init__(self, connections: dict[ServerConnection, None], *, slots: int) -> None:
        """`connections` are all that are open, the oldest first, without the new one."""
        self._connections = connections
        self._slots = slots
        self._departing: set[ServerConnection] = set()
        self._weakest: list[ServerConnection] = []
        """The connections that may be closed, the first one last."""
        self._may_look = True

    @property
    def is_flooded(self) -> bool:
        return len(self._departing) >= self._slots

    def take(self) -> bool:
        """Whether a new connection gets a slot; another may have to close for it."""
        if len(self._connections) - len(self._departing) < self._slots:
            return True
        weakest = None if self.is_flooded else self._next_to_go()
        if weakest is None:
            return False
        weakest.give_way()
        return True

    def free(self, connection: ServerConnection) -> None:
        """It will be closed."""
        self._departing.add(connection)

    def gone(self, connection: ServerConnection) -> None:
        self._departing.discard(connection)

    def second(self) -> None:
        """A second has passed: recompute the candidates, so that no closed connection stays referenced."""
        self._weakest.clear()
        self._may_look = True

    def _next_to_go(self) -> ServerConnection | None:
        if not self._weakest and self._may_look:
            newest_first = list(reversed(self._connections))
            idle = [one for one in newest_first if one.is_idle]
            slow = [one for one in newest_first if one.awaits_request]
            idle.sort(key=lambda one: one.idle_s)
            slow.sort(key=lambda one: -one.bytes_per_s)
            self._weakest = slow + idle
            self._may_look = bool(self._weakest)
        while self._weakest:
            weakest = self._weakest.pop()
            if weakest.is_idle or weakest.awaits_request:
                return weakest
        return None


class EndableStream(Protocol):
    def end(self) -> None:
        """Send the end of the stream and close."""


class Edge:
    """The broker, the limits, and every open connection."""

    def __init__(
        self,
        broker: Broker,
        options: HttpOptions,
        *,
        bound_to: str = "localhost",
        guard: Guard | None = None,
    ) -> None:
        """`bound_to` is the name or address that it listens on; without a guard no key is needed."""
        self.broker = broker
        self.engine = broker.engine
        self.clock = broker.engine.clock
        self.counters = broker.engine.counters
        self.routing = broker.routing
        self.options = options
        self.guard = guard
        self.heads = Heads()
        self.known_heads = HeadCache()
        self.host_rule = None if options.in_process else HostRule((bound_to, *options.allowed_hosts))
        """None where no browser can connect."""
        self.connections: dict[ServerConnection, None] = {}
        """In the order of their arrival."""
        self._slots = ConnectionSlots(self.connections, slots=options.connections_max)
        self.emptied = asyncio.Event()
        """Set when the last connection is closed."""
        self.streams: set[EndableStream] = set()
        self.registry_claims = RegistryClaims.of(broker.options.events)
        """None where the server has no registry."""
        self.live: LiveFeed | None = None
        """What the dashboard shows; None until one asks for it."""
        self.tick = 0
        """Seconds since the start."""
        self.reading = asyncio.Semaphore(1)
        """Held while a thread reads much of the log."""
        self.walking = asyncio.Semaphore(1)
        """Held for a slice of a long read of the state."""
        self._tasks: set[asyncio.Task[None]] = set()
        self._request_prefix = (options.instance[:12] or secrets.token_hex(6)).encode()
        self._request_numbers = count(1)

    def new_request_id(self) -> bytes:
        """Unique to this server and this start of it."""
        return b"%b-%x" % (self._request_prefix, next(self._request_numbers))

    def enter(self, connection: ServerConnection) -> bool:
        """Count a new connection; whether there is a slot for it, perhaps that of another."""
        has_slot = self._slots.take()
        self.connections[connection] = None
        self.counters.connections += 1
        self.emptied.clear()
        return has_slot

    @property
    def is_flooded(self) -> bool:
        """As many connections as are allowed are closing."""
        return self._slots.is_flooded

    def departs(self, connection: ServerConnection) -> None:
        """This connection will be closed: its slot is free."""
        self._slots.free(connection)

    def leave(self, connection: ServerConnection) -> None:
        self.connections.pop(connection, None)
        self._slots.gone(connection)
        if not self.connections:
            self.emptied.set()

    def spawn(self, exchange: Exchange, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Answer a request by a coroutine: for routing and long reads, never for the hot path."""
        task = asyncio.get_running_loop().create_task(self._watch(exchange, work))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _watch(self, exchange: Exchange, work: Coroutine[Any, Any, None]) -> None:
        try:
            await work
        except asyncio.CancelledError:
            exchange.reply_error(ShuttingDown())  # No effect if the client has disconnected.
            raise
        except DriftQError as refused:
            exchange.reply_error(refused)
        except Exception as error:  # noqa: BLE001 - the boundary: logged and answered
            exchange.failed(error)

    async def finish_tasks(self, *, within_s: float) -> None:
        """Wait for the running coroutines, and cancel those that do not end in time."""
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=within_s)
        late = list(self._tasks)
        for task in late:
            task.cancel()
        if late:
            await asyncio.wait(late, timeout=within_s)

    def keys_changed(self, guard: Guard) -> None:
        """Close the connections on which a request with a revoked or changed key is open."""
        for connection in list(self.connections):
            connection.close_unless(guard.is_current)

    def second(self) -> None:
        """Once a second: update the date, and close silent connections."""
        self.tick += 1
        self.heads.refresh()
        self._slots.second()
        if self.guard is not None and self.guard.look():
            self.keys_changed(self.guard)
        for connection in list(self.connections):
            connection.look_after()
