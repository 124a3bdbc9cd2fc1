"""What all connections of one server share."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any, Protocol

from driftq.errors import DriftQError, ShuttingDown
from driftq.http.wire.exchange import Exchange
from driftq.http.wire.head_cache import HeadCache
from driftq.http.wire.hosts import HostRule
from driftq.http.wire.options import HttpOptions
from driftq.http.wire.responses import Heads
from driftq.http.wire.slots import Places
from driftq.server.broker import Broker

if TYPE_CHECKING:
    from driftq.http.wire.connection import ServerConnection


class EndableStream(Protocol):
    def end(self) -> None:
        """Send the end of the stream and close."""


class Edge:
    """The broker behind, the limits, and everything that is open in front."""

    def __init__(self, broker: Broker, options: HttpOptions, *, bound_to: str = "localhost") -> None:
        """`bound_to` is the name or address that it listens on."""
        self.broker = broker
        self.engine = broker.engine
        self.clock = broker.engine.clock
        self.counters = broker.engine.counters
        self.routing = broker.desk
        self.options = options
        self.heads = Heads()
        self.known_heads = HeadCache()
        self.host_rule = None if options.in_process else HostRule((bound_to, *options.allowed_hosts))
        """None where no browser can come."""
        self.connections: dict[ServerConnection, None] = {}
        """In the order in which they came."""
        self._places = Places(self.connections, places=options.connections_max)
        self.emptied = asyncio.Event()
        """Set when the last connection has gone."""
        self.streams: set[EndableStream] = set()
        self.tick = 0
        """Seconds since the start, as far as anybody here needs to know."""
        self.reading = asyncio.Semaphore(1)
        """Held by whoever reads much of the log in a thread."""
        self._tasks: set[asyncio.Task[None]] = set()

    def enter(self, connection: ServerConnection) -> bool:
        """Count a new connection; whether there is a place for it, perhaps one that another gave up."""
        has_place = self._places.take_one()
        self.connections[connection] = None
        self.counters.connections += 1
        self.emptied.clear()
        return has_place

    @property
    def is_flooded(self) -> bool:
        """As many as may be here are on their way out."""
        return self._places.is_flooded

    def departs(self, connection: ServerConnection) -> None:
        """This connection will be closed: its place is free."""
        self._places.free(connection)

    def leave(self, connection: ServerConnection) -> None:
        self.connections.pop(connection, None)
        self._places.gone(connection)
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
            exchange.reply_error(ShuttingDown())  # Or the client is gone, and then nobody hears it.
            raise
        except DriftQError as refused:
            exchange.reply_error(refused)
        except Exception as error:  # noqa: BLE001 - the boundary: logged and answered
            exchange.failed(error)

    async def finish_tasks(self, *, within_s: float) -> None:
        """Let requests that are under way in coroutines end, and stop those that do not."""
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=within_s)
        late = list(self._tasks)
        for task in late:
            task.cancel()
        if late:
            await asyncio.wait(late, timeout=within_s)

    def second(self) -> None:
        """Once a second: the date goes on, and those who fell silent are let go."""
        self.tick += 1
        self.heads.refresh()
        self._places.second()
        for connection in list(self.connections):
            connection.look_after()
