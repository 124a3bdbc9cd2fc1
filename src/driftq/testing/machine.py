"""One life of a server on the simulated disk: from a start to a kill, a power cut or a clean stop."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random

from driftq.errors import LogError
from driftq.log.log import Log
from driftq.log.recovery import Recovery
from driftq.model.options.limits import Limits
from driftq.server.engine import Engine
from driftq.server.maintenance.stage import MaintenanceOptions
from driftq.testing.canonical import canonical, differences, fold_folder, unsettled
from driftq.testing.checkers import Violation
from driftq.testing.clock import VirtualClock
from driftq.testing.disk import PowerCut, SimFolder
from driftq.testing.housekeeper import SimHousekeeper
from driftq.testing.loop import Latency, SimBackground, SimLoop


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineOptions:
    """How the simulated server is set up."""

    limits: Limits = field(default_factory=Limits)
    segment_bytes: int = 16_384
    segment_records: int = 1_000_000
    housekeeping: bool = True
    """A housekeeper works, is killed now and then, and its files are adopted."""
    latency: Latency = field(default_factory=Latency)
    fsync: bool = True
    quick_disk: bool = True
    """The loop may write commits; else they are all for the writer thread."""
    cold_reads: float = 0.0
    """The chance that bytes are not in the page cache."""


class _ColdLog(Log):
    """A log whose pages are not always in memory, and whose spare files get their zeros in small steps."""

    def __init__(self, folder: SimFolder, options: MachineOptions, random: Random) -> None:
        super().__init__(folder, segment_bytes=options.segment_bytes, segment_records=options.segment_records)
        self.files.fill_bytes = 700
        self._chance = options.cold_reads
        self._random = random

    def try_read(self, segment: int, position: int, size: int) -> bytes | None:
        if self._random.random() < self._chance:
            return None
        return super().try_read(segment, position, size)


class Machine:
    """A server that runs in virtual time. When it dies, it is discarded with everything in memory."""

    def __init__(
        self,
        folder: SimFolder,
        options: MachineOptions,
        *,
        clock: VirtualClock,
        random: Random,
        on_fatal: Callable[[Exception], None],
    ) -> None:
        self.folder = folder
        self.options = options
        self.clock = clock
        self.damaged_on_purpose = False
        self.damages: list[Exception] = []
        """The deliberate damage that the server found and that must stop it."""
        self._on_fatal = on_fatal
        self.loop = SimLoop(clock, random)
        folder.lock()
        log = _ColdLog(folder, options, random)
        self._log = log
        self.background = SimBackground(
            log,
            self.loop,
            clock,
            random,
            latency=options.latency,
            fsync=options.fsync,
            quick_disk=options.quick_disk,
        )
        self.engine = Engine(
            log,
            limits=options.limits,
            clock=clock,
            loop=self.loop,
            background=self.background,
            on_fatal=self._stopped,
            maintenance=MaintenanceOptions(tick_ms=200, roll_ms=5_000),
            housekeeper=SimHousekeeper(folder, options.limits, loop=self.loop, clock=clock, random=random)
            if options.housekeeping
            else None,
            jitter=random.random,
        )

    def _stopped(self, error: Exception) -> None:
        if self.damaged_on_purpose:
            self.damages.append(error)
        else:
            self._on_fatal(error)

    def start(self) -> Recovery:
        return self.engine.start()

    def stop(self) -> None:
        """A clean stop, however long it takes; the folder can be opened again."""
        stopped: list[bool] = []
        self.engine.stop(lambda: stopped.append(True))
        for _ in range(10_000):
            if stopped:
                break
            self.loop.run_for(1)
        else:
            raise Violation("H6", "the server does not come to rest")
        self._log.close()

    def compare_with_log(self) -> None:
        """The state must equal the fold of the files whenever no write is under way."""
        if self.background.committing or self.engine.refusal is not None:
            return
        now = self.clock.now()
        state = self.engine.state
        folded = fold_folder(self.folder, self.options.limits)
        found = differences(canonical(state, now=now), canonical(folded, now=now))
        if found:
            raise Violation("W2", "the state is not the fold of the log: " + "; ".join(found[:5]))
        for topic in state.topics.values():
            for number, part in enumerate(topic.partitions):
                count, size_bytes = unsettled(topic, number, limits=self.options.limits, now=now)
                if part.pressure < count or part.pressure_bytes < size_bytes:
                    told = f"{part.pressure} messages, {part.pressure_bytes} bytes"
                    raise Violation("P4", f"{topic.name}/{number}: {told}, not {count}, {size_bytes}")


def boot(
    folder: SimFolder,
    options: MachineOptions,
    *,
    clock: VirtualClock,
    random: Random,
    say: Callable[[str], None],
) -> Machine:
    """Start a server on the remains of a crash; sometimes the power fails once more during the start."""
    for patience in range(20, -1, -1):
        machine = Machine(folder, options, clock=clock, random=random, on_fatal=_refuse_damage)
        if options.fsync and patience and random.random() < 0.1:
            folder.cut_power_after(random.randint(0, 6))
        try:
            found = machine.start()
        except PowerCut:
            say("         power cut while starting")
            folder = folder.crash()
            continue
        except LogError as error:
            raise Violation("W4", f"the log cannot be recovered: {error}") from error
        folder.cut_power_after(1 << 60)  # A cut that did not strike the start is off.
        say(f"         started: {found.frames} frames, cut {found.cut}, now {clock.now() % 10_000_000}")
        return machine
    raise Violation("W4", "the server does not start")


def _refuse_damage(error: Exception) -> None:
    raise Violation("W4", f"the server found damage where none was done: {error}") from error
