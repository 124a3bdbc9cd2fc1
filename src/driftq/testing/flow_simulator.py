"""Limits, pauses, dependencies and schedules in virtual time on a disk that fails: one seed, one run.

    python -m driftq.testing.flow_simulator --seed 123 --steps 250

At the end everything is resumed and done: no job is stuck, and no fire of a schedule is missing.
"""

from __future__ import annotations

import argparse
import logging
import sys
from collections.abc import Callable
from random import Random

from driftq.core.jobs.limits import ClaimLimit, ClaimRate, QueueLimits
from driftq.core.jobs.table import JobState
from driftq.core.state import State
from driftq.errors import WritingStopped
from driftq.model.options.limits import Limits
from driftq.testing.check_flow import FlowJob
from driftq.testing.check_schedules import PeriodicSchedule
from driftq.testing.flow_world import SCHEDULED, FlowWorld
from driftq.testing.machine import MachineOptions
from driftq.testing.simulator import SimulationFailed
from driftq.testing.work_life import DAY_MS, HOUR_MS

STEPS = 200
QUEUES = ("mail", "video", "plain")
_MINUTE_MS = 60_000
_STEPS_MS = (5_000, -5_000, 90_000, HOUR_MS, -90_000, -HOUR_MS)
_LONG_MS = 70_000
"""Longer than a step of the clock is held back."""


def simulate_flow(seed: int, *, steps: int = STEPS, trace: list[str] | None = None) -> FlowWorld:
    """One run; SimulationFailed when a judge or the code itself objects."""
    lines = [] if trace is None else trace
    try:
        return _FlowRun(Random(seed), lines).go(steps)
    except Exception as error:
        module = "driftq.testing.flow_simulator"
        raise SimulationFailed(seed, steps=steps, cause=error, trace=lines, module=module) from error


class _FlowRun:
    """A seeded workload, then the end of the day."""

    def __init__(self, random: Random, trace: list[str]) -> None:
        options = MachineOptions(
            limits=Limits(),
            segment_bytes=random.choice((4_096, 65_536)),
            fsync=random.random() < 0.9,
            quick_disk=random.random() < 0.5,
            cold_reads=random.choice((0.0, 0.3)),
        )
        self._random = random
        self._world = FlowWorld(random, options, say=trace.append)
        self._serial = 0
        trouble = random.choice((0.0, 1.0, 2.0))
        clocks = random.choice((0.0, 1.0, 3.0))
        self._actions: list[tuple[float, Callable[[], None]]] = [
            (30, self._enqueue),
            (30, self._claim),
            (30, self._end_job),
            (4, self._pause),
            (4, self._resume),
            (3, self._set_schedule),
            (1, self._disturb_schedule),
            (1, self._compare),
            (1 * trouble, self._break_disk),
            (1 * trouble, self._crash),
            (1 * trouble, self._plan_power_cut),
            (3 * clocks, self._set_clock),
            (1, self._wait_long),
        ]

    def go(self, steps: int) -> FlowWorld:
        world = self._world
        self._set_limits()
        for _ in range(steps):
            self._random.choices(*zip(*[(a, w) for w, a in self._actions], strict=True))[0]()
            world.run_for(self._random.choice((0, 0, 1, 5, 20, 100, 900)))
            if isinstance(world.machine.engine.refusal, WritingStopped):
                world.crash(power=world.options.fsync)
        self._work_off()
        return world

    def _set_limits(self) -> None:
        random = self._random
        for queue in QUEUES[:2]:
            whole = ClaimLimit(random.choice((None, 2, 4)), random.choice((None, ClaimRate(5, 3_000))))
            per_key = ClaimLimit(random.choice((None, 1, 2)), random.choice((None, ClaimRate(2, 2_000))))
            self._world.limit(queue, QueueLimits(whole, per_key))
        self._world.run_for(200)

    # What clients do

    def _enqueue(self) -> None:
        random, world = self._random, self._world
        self._serial += 1
        queue = random.choice(QUEUES)
        key = random.choice(("", "a", "a", "b", "c")) if queue != "plain" else ""
        known = sorted(world.flow.jobs)[-8:]
        parents = random.sample(known, min(len(known), random.choice((0, 0, 0, 1, 2))))
        world.enqueue(
            f"job-{self._serial}",
            FlowJob(queue, key, tuple(sorted(parents))),
            priority=random.choice((5, 5, 5, 2, 8)),
            max_retries=self._serial % 3,
            delay_ms=random.choice((0, 0, 0, 300, 5_000)),
        )

    def _claim(self) -> None:
        random = self._random
        queues = random.choice(([*QUEUES, SCHEDULED], ["mail"], ["mail", "video"], [SCHEDULED]))
        self._world.claim(
            queues,
            limit=random.choice((1, 2, 9)),
            lease_ms=random.choice((300, 1_000, 5_000)),
            wait_ms=random.choice((0, 400)),
        )

    def _end_job(self) -> None:
        world, random = self._world, self._random
        if not world.held:
            return
        offset, token = random.choice(world.held[-8:])
        chance = random.random()
        if chance < 0.6:
            world.complete(offset, token)
        elif chance < 0.8:
            world.fail(offset, token, retryable=chance < 0.77)
        elif chance < 0.95:
            world.heartbeat(offset, token, random.choice((300, 800)))
        else:
            world.cancel(random.choice([offset, *world.flow.jobs][-20:]))

    def _pause(self) -> None:
        self._world.pause(self._random.choice(QUEUES))

    def _resume(self) -> None:
        self._world.resume(self._random.choice(QUEUES))

    def _set_schedule(self) -> None:
        """A schedule is set with the same content each time, as workers do at every start."""
        minutes, missed = self._random.choice(
            ((10, "all"), (20, "all"), (60, "all"), (10, "last"), (20, "skip"))
        )
        cron = "0 * * * *" if minutes == 60 else f"*/{minutes} * * * *"
        schedule = PeriodicSchedule(f"{missed}-{minutes}", cron, minutes * _MINUTE_MS, missed)
        self._world.set_schedule(schedule)

    def _disturb_schedule(self) -> None:
        names = sorted(self._world.schedules.schedules)
        if names:
            self._world.disturb_schedule(self._random.choice(names), remove=self._random.random() < 0.3)

    # What happens to the server

    def _compare(self) -> None:
        self._world.machine.compare_with_log()
        self._world.machine.engine.payloads.forget()

    def _break_disk(self) -> None:
        self._world.machine.folder.fail_next(self._random.choice(("write", "sync", "create")))

    def _crash(self) -> None:
        world = self._world
        away_ms = self._random.choice((0, 0, HOUR_MS))
        world.crash(power=world.options.fsync and self._random.random() < 0.6, away_ms=away_ms)

    def _plan_power_cut(self) -> None:
        if self._world.options.fsync:
            self._world.machine.folder.cut_power_after(self._random.randint(0, 8))

    def _set_clock(self) -> None:
        """The clock is set, or set right again before the step counts."""
        world = self._world
        held_back = world.wall.held_back_ms(world.now)
        if held_back:
            world.set_wall(by_ms=-held_back)
        elif world.wall.may_be_set(world.now):
            world.set_wall(by_ms=self._random.choice(_STEPS_MS))

    def _wait_long(self) -> None:
        self._world.run_for(_LONG_MS)

    # The end of the day

    def _work_off(self) -> None:
        world = self._world
        world.crash(power=False, away_ms=DAY_MS + 2 * HOUR_MS)
        world.say("WORK OFF")
        world.held.clear()
        for queue in QUEUES:
            world.resume(queue)
        quiet_ms = 0
        while quiet_ms < 35_000:  # Longer than any lease, backoff or window of a rate.
            world.claim([*QUEUES, SCHEDULED], limit=50, lease_ms=5_000, wait_ms=0)
            world.run_for(500)
            quiet_ms = 0 if world.held else quiet_ms + 500
            for offset, token in world.held:
                world.complete(offset, token)
            world.held.clear()
        world.jobs.ended(world.look(_job_states))
        world.flow.ended(world.look(_job_states), world.look(lambda state: dict(state.jobs.errors)))
        world.schedules.ended(wall=world.machine.clock.wall() - quiet_ms)
        world.machine.compare_with_log()


def _job_states(state: State) -> dict[int, str]:
    return {offset: JobState(state.jobs.state(offset) or 0).name.lower() for offset in state.jobs.offsets()}


def main(arguments: list[str] | None = None) -> int:
    """Replay one seed, or run many."""
    parser = argparse.ArgumentParser(prog="python -m driftq.testing.flow_simulator", description=__doc__)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=STEPS)
    parser.add_argument("--seeds", type=int, default=1, help="how many seeds to run, starting with the first")
    given = parser.parse_args(arguments)
    logging.disable(logging.CRITICAL)
    failed = 0
    for seed in range(given.seed, given.seed + given.seeds):
        try:
            simulate_flow(seed, steps=given.steps)
        except SimulationFailed as failure:
            failed += 1
            sys.stdout.write(f"seed {seed}: {failure if given.seeds == 1 else failure.cause!r}\n")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
