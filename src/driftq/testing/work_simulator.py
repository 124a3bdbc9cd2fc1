"""Jobs, effects, retries and dead letters in virtual time on a disk that fails: one seed, one run.

    python -m driftq.testing.work_simulator --seed 123 --steps 250

It complements `simulator`, which is about messages. At the end all work is done, and each job, each effect
and each message must have ended once. One topic is deleted and recreated with other partitions while its
messages wait, and its groups are deleted and recreated while its dead letters are redriven: see
`dead_letter_life`.
"""

from __future__ import annotations

import argparse
import logging
import sys
from collections.abc import Callable
from random import Random

from driftq.core.effects import STEPS_TOPIC, Identity
from driftq.core.jobs.table import JobState
from driftq.core.records import CRASH_IDEMPOTENT, CRASH_UNDECLARED, CRASH_UNKNOWN
from driftq.core.state import State
from driftq.errors import WritingStopped
from driftq.model.job import RetryTiming
from driftq.model.options.limits import Limits
from driftq.model.topic import DEAD_LETTER_PREFIX
from driftq.testing.check_dead_letters import Fragile
from driftq.testing.machine import MachineOptions
from driftq.testing.simulator import SimulationFailed
from driftq.testing.work_life import DAY_MS, HOUR_MS
from driftq.testing.work_world import GROUPS, TOPIC, WorkWorld

STEPS = 200
_KEYS = 6
_STEPS_MS = (5_000, -5_000, 90_000, HOUR_MS, DAY_MS, -90_000, -DAY_MS)
"""By how much the wall clock is set while the server runs."""
_TIMINGS = (None, RetryTiming(2_000, 8_000, full_jitter=False), RetryTiming(100, 2_000), RetryTiming(0, 0))
_LONG_MS = 70_000
"""Longer than a step of the clock is held back."""


def simulate_work(seed: int, *, steps: int = STEPS, trace: list[str] | None = None) -> WorkWorld:
    """One run; SimulationFailed when a judge or the code itself objects."""
    lines = [] if trace is None else trace
    try:
        return _WorkRun(Random(seed), lines).go(steps)
    except Exception as error:
        module = "driftq.testing.work_simulator"
        raise SimulationFailed(seed, steps=steps, cause=error, trace=lines, module=module) from error


class _WorkRun:
    """A seeded workload, then the end of the day."""

    def __init__(self, random: Random, trace: list[str]) -> None:
        options = MachineOptions(
            limits=Limits(in_flight_max=random.choice((2, 20))),
            segment_bytes=random.choice((4_096, 65_536)),
            fsync=random.random() < 0.9,
            quick_disk=random.random() < 0.5,
            cold_reads=random.choice((0.0, 0.3)),
        )
        self._random = random
        self._world = WorkWorld(random, options, say=trace.append)
        self._serial = 0
        trouble = random.choice((0.0, 1.0, 2.0))
        clocks = random.choice((0.0, 1.0, 3.0))
        self._actions: list[tuple[float, Callable[[], None]]] = [
            (14, self._enqueue),
            (14, self._claim),
            (16, self._end_job),
            (10, self._begin),
            (8, self._end_effect),
            (3, self._resolve_step),
            (16, self._produce),
            (36, self._end_message),
            (45, self._world.dead_letter_life.step),
            (16, self._world.job_life.step),
            (4, self._reopen_stream),
            (2, self._stop_worker),
            (1, self._compare),
            (1 * trouble, self._break_disk),
            (1 * trouble, self._crash),
            (1 * trouble, self._plan_power_cut),
            (3 * clocks, self._set_clock),
            (0.4 * clocks, self._wait_long),
        ]

    def go(self, steps: int) -> WorkWorld:
        world = self._world
        world.begin_topic()
        for _ in range(steps):
            self._random.choices(*zip(*[(a, w) for w, a in self._actions], strict=True))[0]()
            world.run_for(self._random.choice((0, 0, 1, 5, 20, 100, 900)))
            if isinstance(world.machine.engine.refusal, WritingStopped):
                world.crash(power=world.options.fsync)
        self._work_off()
        return world

    # What workers do

    def _enqueue(self) -> None:
        random = self._random
        self._serial += random.random() < 0.7  # Else the same job once more.
        retries = self._serial % 3
        delay = random.choice((0, 0, 0, 300, 300, 50_000))
        run_at = self._clock_of_a_user() + delay if delay else None
        self._world.enqueue(
            f"job-{self._serial}",
            priority=self._serial % 10,
            max_retries=retries,
            run_at=run_at,
            retry=_TIMINGS[self._serial % len(_TIMINGS)],
        )

    def _clock_of_a_user(self) -> int:
        """Users follow the machine's clock, or a more accurate one."""
        world = self._world
        return self._random.choice((world.machine.clock.machine_wall(), world.true_time))

    def _claim(self) -> None:
        random = self._random
        self._world.claim(
            limit=random.choice((1, 2, 5)),
            lease_ms=random.choice((300, 1_000)),
            wait_ms=random.choice((0, 400)),
        )

    def _end_job(self) -> None:
        world, random = self._world, self._random
        if not world.held_jobs:
            return
        offset, token = random.choice(world.held_jobs[-6:])
        chance = random.random()
        if chance < 0.5:
            world.complete(offset, token)
        elif chance < 0.75:
            world.fail(offset, token, retryable=chance < 0.7)
        elif chance < 0.95:
            world.heartbeat(offset, token, random.choice((300, 800)))
        else:
            world.cancel(offset)

    def _begin(self) -> None:
        identity = ("", "orders", "billing", f"key-{self._random.randrange(_KEYS)}")
        crash = CRASH_UNDECLARED
        if self._random.random() < 0.4:
            identity, crash = self._step(), self._random.choice((CRASH_IDEMPOTENT, CRASH_UNKNOWN))
        self._world.begin(identity, self._random.choice("ab"), self._random.choice((200, 900)), crash=crash)

    def _step(self) -> Identity:
        return ("", STEPS_TOPIC, "agent", f"step:run/{self._random.randrange(_KEYS)}")

    def _resolve_step(self) -> None:
        self._world.resolve(self._step())

    def _end_effect(self) -> None:
        world = self._world
        if world.held_effects:
            identity, token, owner = self._random.choice(world.held_effects[-4:])
            if self._random.random() < 0.3:
                world.commit(identity, token, owner)
            else:
                world.fail_effect(identity, token, owner)

    def _produce(self) -> None:
        random = self._random
        self._serial += 1
        deadline = None
        if random.random() < 0.3:
            deadline = self._clock_of_a_user() + random.choice((200, 2_000, 50_000))
        self._world.produce(Fragile(f"v{self._serial}", random.choice((0, 1, 2, 3)), 50, deadline))

    def _end_message(self) -> None:
        world, random = self._world, self._random
        awake = [hand for hand in world.hands if not world.is_stopped(hand[0])]
        if not awake:
            return
        group, delivery = random.choice(awake)
        world.hands.remove((group, delivery))
        chance = random.random()
        if chance < 0.35:
            world.ack(group, delivery)
        elif chance < 0.75:
            world.nack(group, delivery, retryable=chance < 0.7)
        elif chance < 0.93:
            world.give_back(group, delivery)

    def _reopen_stream(self) -> None:
        group = self._random.choice(GROUPS)
        if not self._world.is_stopped(group):
            self._world.reopen_stream(group)

    def _stop_worker(self) -> None:
        self._world.stop_worker(self._random.choice(GROUPS), ms=self._random.choice((2_000, 8_000)))

    # What happens to the server

    def _compare(self) -> None:
        self._world.machine.compare_with_log()
        self._world.machine.engine.payloads.forget()

    def _break_disk(self) -> None:
        self._world.machine.folder.fail_next(self._random.choice(("write", "sync", "create")))

    def _crash(self) -> None:
        self._world.crash(power=self._world.options.fsync and self._random.random() < 0.6)

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
        world.crash(power=False, away_ms=3 * DAY_MS)
        world.say("WORK OFF")
        world.held_jobs.clear()
        quiet_ms = 0
        while quiet_ms < 35_000:  # Longer than any lease or backoff.
            world.claim(limit=50, lease_ms=5_000, wait_ms=0)
            world.run_for(500)
            worked = world.dead_letter_life.work_off()
            quiet_ms = 0 if world.held_jobs or world.hands or worked else quiet_ms + 500
            for offset, token in world.held_jobs:
                world.complete(offset, token)
            for group, delivery in world.hands:
                world.ack(group, delivery)
            world.held_jobs.clear()
            world.hands.clear()
        states = world.look(_job_states)
        world.jobs.ended(states)
        self._judge_messages()
        world.dead_letter_life.judge()
        world.machine.compare_with_log()
        world.dead_letter_life.judge_damage()

    def _judge_messages(self) -> None:
        world = self._world
        dlq_topic = DEAD_LETTER_PREFIX + TOPIC
        if world.look(lambda state: dlq_topic in state.topics):
            world.read_graves()
            world.run_for(3_000)
        world.dead_letters.ended(world.look(_offsets))


def _job_states(state: State) -> dict[int, str]:
    return {offset: JobState(state.jobs.state(offset) or 0).name.lower() for offset in state.jobs.offsets()}


def _offsets(state: State) -> set[int]:
    indexes = [part.index for part in state.topics[TOPIC].partitions]
    return {index.offset_at(ordinal) for index in indexes for ordinal in range(index.first, index.end)}


def main(arguments: list[str] | None = None) -> int:
    """Replay one seed, or run many."""
    parser = argparse.ArgumentParser(prog="python -m driftq.testing.work_simulator", description=__doc__)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=STEPS)
    parser.add_argument("--seeds", type=int, default=1, help="how many seeds to run, starting with the first")
    given = parser.parse_args(arguments)
    logging.disable(logging.CRITICAL)
    failed = 0
    for seed in range(given.seed, given.seed + given.seeds):
        try:
            simulate_work(seed, steps=given.steps)
        except SimulationFailed as failure:
            failed += 1
            sys.stdout.write(f"seed {seed}: {failure if given.seeds == 1 else failure.cause!r}\n")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
