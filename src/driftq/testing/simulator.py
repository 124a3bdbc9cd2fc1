"""The whole broker in virtual time on a disk that fails: one seed, one run, the same each time.

    python -m driftq.testing.simulator --seed 123 --steps 400

A run draws its limits, its clients' actions, every latency and every fault from the seed, lets a patient
consumer drain all groups at the end, and reads every topic from the start. The judges are in the `check_*`
modules.
"""

from __future__ import annotations

import argparse
import logging
import sys
from random import Random

from driftq.errors import WritingStopped
from driftq.model.options.limits import Limits
from driftq.testing.check_delivered import Listener
from driftq.testing.checkers import LATE_GROUP, require
from driftq.testing.consumer import Hand, SimConsumer, SimWorker
from driftq.testing.machine import MachineOptions
from driftq.testing.workload import Workload
from driftq.testing.world import World

STEPS = 250
_TRACE_SHOWN = 40


class SimulationFailed(AssertionError):
    """A run failed; the text says how to replay it."""

    def __init__(
        self,
        seed: int,
        *,
        steps: int,
        cause: BaseException,
        trace: list[str],
        module: str = "driftq.testing.simulator",
    ) -> None:
        shown = "\n".join(trace[-_TRACE_SHOWN:])
        super().__init__(
            f"{type(cause).__name__}: {cause}\n{shown}\n"
            f"replay: python -m {module} --seed {seed} --steps {steps}"
        )
        self.seed = seed
        self.cause = cause


def simulate(seed: int, *, steps: int = STEPS, trace: list[str] | None = None) -> World:
    """One run; SimulationFailed when a judge or the code itself objects."""
    lines = [] if trace is None else trace
    try:
        return _Run(Random(seed), lines).go(steps)
    except Exception as error:
        raise SimulationFailed(seed, steps=steps, cause=error, trace=lines) from error


def draw_options(random: Random) -> MachineOptions:
    """A server with small limits, so that a run reaches all of them."""
    return MachineOptions(
        limits=Limits(
            in_flight_max=random.choice((1, 3, 20)),
            partition_messages_max=random.choice((8, 40, 1_000)),
            partition_bytes_max=random.choice((3_000, 100_000)),
            idempotency_ttl_ms=(ttl_ms := random.choice((600_000, 600_000, 3_000, 1_000))),
            retention_ms=random.choice((1_500, 4_000, 600_000)) if ttl_ms < 10_000 else 600_000,
        ),
        segment_records=random.choice((20, 100, 1_000)),
        housekeeping=random.random() < 0.8,
        segment_bytes=random.choice((2_048, 8_192, 65_536)),
        fsync=random.random() < 0.9,
        cold_reads=random.choice((0.0, 0.0, 0.3)),
        quick_disk=random.random() < 0.5,
    )


class _Run:
    """A seeded workload, then the end of the day."""

    def __init__(self, random: Random, trace: list[str]) -> None:
        options = draw_options(random)
        trace.append(f"         {options}")
        self._world = World(random, options, slack_ms=300, say=trace.append)
        self._workload = Workload(self._world)
        self._patient = SimWorker("patient")

    def go(self, steps: int) -> World:
        world = self._world
        self._workload.begin()
        for _ in range(steps):
            self._workload.step()
            if isinstance(world.machine.engine.refusal, WritingStopped):
                world.crash(power=world.options.fsync)  # What an operator would do.
        self._drain()
        return world

    def _drain(self) -> None:
        """All consumers leave; one patient consumer for each group acks every delivery."""
        world = self._world
        world.stop_and_start()
        world.say("DRAIN")
        audited: dict[str, dict[int, str]] = {topic: {} for topic in world.stored.partitions}
        waiting: list[Hand] = []
        world.on_delivery = waiting.append
        for topic in audited:
            for group in {group for name, group in world.groups if name == topic} | {"audit"}:
                listener = Listener(
                    topic=topic, group=group, owner="patient", lease_ms=60_000, release_on_close=False
                )
                world.join(
                    SimConsumer(
                        listener, self._patient, on_delivery=world.receive, latest=group == LATE_GROUP
                    )
                )
        for life in self._workload.lives:
            life.drain()
        quiet_ms = 0
        while quiet_ms < 12_000:  # Longer than any lease or backoff.
            world.run_for(200)
            quiet_ms = 0 if waiting else quiet_ms + 200
            for hand in waiting:
                if hand.group == "audit":
                    audited[hand.topic][hand.delivery.offset] = hand.delivery.value
                world.ack("patient", [hand], with_attempt=True)
            waiting.clear()
        self._judge(audited)

    def _judge(self, audited: dict[str, dict[int, str]]) -> None:
        world = self._world
        for life in self._workload.lives:
            life.judge()
        world.stored.audit(audited, now=world.now, may_be_gone=world.may_be_gone)
        for topic, group in world.groups:
            since = world.groups[topic, group] if group == LATE_GROUP else -1
            expected = {
                offset for offset, value in audited[topic].items() if world.stored.moment_of(value) > since
            }
            world.deliveries.drained(topic, group, expected)
        for topic in audited:
            world.read(topic)
        world.run_for(100)
        world.stop_and_start()
        state = world.machine.engine.state
        for topic, messages in audited.items():
            stored = sum(part.index.end for part in state.topics[topic].partitions)
            whole = stored == len(messages) or (world.run.drops and stored > len(messages))
            require(whole, "W2", f"{topic} holds {stored}, the audit saw {len(messages)}")


def main(arguments: list[str] | None = None) -> int:
    """Replay one seed, or run many."""
    parser = argparse.ArgumentParser(prog="python -m driftq.testing.simulator", description=__doc__)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=STEPS)
    parser.add_argument(
        "--seeds", type=int, default=1, help="how many seeds to run, starting with the first, without a trace"
    )
    given = parser.parse_args(arguments)
    logging.disable(logging.CRITICAL)
    failed = 0
    for seed in range(given.seed, given.seed + given.seeds):
        trace: list[str] = []
        try:
            simulate(seed, steps=given.steps, trace=trace)
        except SimulationFailed as failure:
            failed += 1
            if given.seeds > 1:
                sys.stdout.write(f"seed {seed}: {type(failure.cause).__name__}: {failure.cause}\n")
                continue
            sys.stdout.write("\n".join(trace) + f"\n{failure}\n")
        else:
            if given.seeds == 1:
                sys.stdout.write("\n".join(trace) + f"\nseed {seed} is good\n")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
