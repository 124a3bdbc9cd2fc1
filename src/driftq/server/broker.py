"""An open broker: log, engine and threads on one event loop."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass, field

from driftq.housekeeping.process import Housekeeper, HousekeeperProcess, NewHousekeeper
from driftq.log.disk import OsFolder
from driftq.log.files import Folder
from driftq.log.log import SEGMENT_BYTES, SEGMENT_RECORDS, Log
from driftq.log.recovery import Recovery
from driftq.model.options.events import EventOptions
from driftq.model.options.jobs import JobOptions
from driftq.model.options.limits import Limits
from driftq.server.clock import SystemClock
from driftq.server.engine import Engine
from driftq.server.events.service import EventsService
from driftq.server.io_threads import AsyncioLoop, Fsync, Threads
from driftq.server.jobs.processed import ProcessedSweeper
from driftq.server.maintenance.stage import MaintenanceOptions
from driftq.server.pipelines import PipelineReports
from driftq.server.ports import Clock, Loop
from driftq.server.registry.service import RegistryService
from driftq.server.routing.service import ROUTER_TIMEOUT_MS, Router, RoutingService

logger = logging.getLogger("driftq.broker")


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerOptions:
    """Options of a broker."""

    limits: Limits = field(default_factory=Limits)
    jobs: JobOptions = field(default_factory=JobOptions)
    fsync: Fsync = Fsync.ALWAYS
    durable: bool = True
    """False when the folder is in memory."""
    segment_bytes: int = SEGMENT_BYTES
    segment_records: int = SEGMENT_RECORDS
    housekeeping: bool = True
    """A child process keeps the folder small. Without it nothing is ever removed from it."""
    new_housekeeper: NewHousekeeper | None = None
    """The housekeeper of a folder that no other process can see."""
    tables: str | None = None
    """The folder that tables of topics are written to; None for no tables."""
    history: str | None = None
    """The file that the history of deliveries is kept in; None for no history."""
    maintenance: MaintenanceOptions = field(default_factory=MaintenanceOptions)
    events: EventOptions | None = None
    """The event store beside the broker; None for none."""
    pipelines: str | None = None
    """The file that the reports of pipelines survive a restart in; None: they are in memory only."""
    router: Router | None = None
    router_timeout_ms: int = ROUTER_TIMEOUT_MS


class Broker:
    """Opened by `open_broker` on a running loop, closed by `close`."""

    def __init__(
        self,
        log: Log,
        options: BrokerOptions,
        *,
        loop: asyncio.AbstractEventLoop,
        on_fatal: Callable[[Exception], None],
        clock: Clock | None = None,
        turns: Loop | None = None,
    ) -> None:
        self.options = options
        self.log = log
        self._threads = Threads(log, loop, fsync=options.fsync)
        given_clock, clock = clock, clock or SystemClock()
        self._housekeeper: Housekeeper | None = None
        if options.housekeeping and isinstance(log.folder, OsFolder):
            self._housekeeper = HousekeeperProcess(
                log.folder.path,
                options.limits,
                call_soon=self._threads.call_soon,
                tables=options.tables,
                history=options.history,
            )
        elif options.housekeeping and options.new_housekeeper is not None:
            self._housekeeper = options.new_housekeeper(log.folder, options.limits, self._threads.call_soon)
        self.engine = Engine(
            log,
            limits=options.limits,
            clock=clock,
            loop=turns or AsyncioLoop(loop, clock),
            background=self._threads,
            on_fatal=on_fatal,
            maintenance=options.maintenance,
            housekeeper=self._housekeeper,
        )
        self.events = (
            EventsService(options.events, loop=loop, clock=given_clock, on_damage=self.engine.damaged)
            if options.events is not None
            else None
        )
        self._processed = ProcessedSweeper(options.events) if options.events is not None else None
        self.registry = RegistryService(options.events) if options.events is not None else None
        self.pipelines = PipelineReports(options.pipelines, loop=loop, clock=clock)
        self.routing = (
            RoutingService(
                options.router,
                state=lambda: self.engine.state,
                counters=self.engine.counters,
                timeout_ms=options.router_timeout_ms,
            )
            if options.router is not None
            else None
        )

    def start(self) -> Recovery:
        """Fold the log. Raises LogCorrupt and other LogErrors."""
        if self._housekeeper is not None:
            self._housekeeper.wait_idle()
        found = self.engine.start()
        if found.cut is not None:
            logger.warning("the end of the log was torn and has been cut: %s", found.cut)
        if self._processed is not None:
            self._processed.start()
        return found

    async def close(self) -> None:
        """Accept no more requests, finish the commits under way, release the folder."""
        idle = asyncio.Event()
        self.engine.stop(idle.set)
        await idle.wait()
        if self.routing is not None:
            self.routing.stop()
        if self._processed is not None:
            await asyncio.to_thread(self._processed.stop)
        if self.events is not None:
            await asyncio.to_thread(self.events.stop)
        if self.registry is not None:
            await asyncio.to_thread(self.registry.stop)
        self.pipelines.close()
        self._threads.stop()
        self.log.close()


def open_broker(
    folder: Folder,
    options: BrokerOptions,
    *,
    on_fatal: Callable[[Exception], None],
    clock: Clock | None = None,
    turns: Loop | None = None,
) -> Broker:
    """Take the folder and fold its log. LogLocked when another server has it.

    A clock that does not advance on its own needs `turns`, which runs the loop at its times.
    """
    log = Log.open(folder, segment_bytes=options.segment_bytes, segment_records=options.segment_records)
    broker = Broker(
        log, options, loop=asyncio.get_running_loop(), on_fatal=on_fatal, clock=clock, turns=turns
    )
    broker.start()
    return broker
