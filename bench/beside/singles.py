"""Durable single produces, keyed, on 4 partitions, beside Redis that syncs always and a bare write loop.

Both servers are loaded by a C client: DriftQ by wrk with a script that varies key and value, Redis by
redis-benchmark with `XADD` of the same fields into as many streams.
"""

import os
import time
from pathlib import Path

from bench.beside.setting import OURS, PARTITIONS, REDIS, VALUE, VALUE_BYTES, create_topic
from bench.harness.figure import Figure, at_least, at_most
from bench.harness.plan import plan
from bench.harness.rounds import Sample, Side, cpu_us, interleave, p99_ms
from bench.harness.valkey import Valkey, client_installed, valkey
from bench.harness.wrk import Produces, load
from bench.machine import Server, folder, server

CONNECTIONS = {1: 0.75, 64: 0.8, 256: 0.65}
"""And the share of Redis's rate that is aimed at."""
BARE = "bare loop of write + fdatasync"
XADD = ("XADD", "singles:__rand_int__", "*", "key", "user:__rand_int__", "value", VALUE)


def singles() -> list[Figure]:
    client_installed()
    with folder() as place, valkey(place) as redis, server() as running:
        create_topic(running, "singles")
        return [
            figure
            for connections, share in CONNECTIONS.items()
            for figure in _at(running, redis, place, connections, share)
        ]


def _at(running: Server, redis: Valkey, place: Path, connections: int, share: float) -> list[Figure]:
    seconds = plan().seconds
    ours = Side(OURS, lambda: load(running, Produces("singles"), connections=connections, seconds=seconds))
    theirs = Side(REDIS, lambda: redis.load(XADD, connections=connections, seconds=seconds))
    sides = [ours, theirs]
    if connections == 64:
        sides.append(Side(BARE, lambda: bare_loop(place, seconds / 2)))
    found = interleave(sides)
    name = f"single produce, keyed, {PARTITIONS} partitions, {connections} connection{'s'[: connections - 1]}"
    figures = [
        found.figure(name, OURS, "/s", ratio_to=REDIS, ratio_aim=at_least(share)),
        found.figure(f"{name}, p99", OURS, "ms", ratio_to=REDIS, ratio_aim=at_most(2), of=p99_ms),
        found.figure(f"{name}: Redis", REDIS, "/s"),
    ]
    if connections == 64:
        figures += [
            found.figure(f"{name}: processor time", OURS, "µs", aim=at_most(40), ratio_to=REDIS, of=cpu_us),
            found.figure(f"{name}, bare loop", OURS, "/s", ratio_to=BARE, ratio_aim=at_least(6.5)),
            found.figure(BARE, BARE, "/s"),
        ]
    return figures


def bare_loop(place: Path, seconds: float) -> Sample:
    """One 200-byte write and one fdatasync after the other: what a log without group commit can do."""
    descriptor = os.open(place / "bare", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    octets = b"x" * VALUE_BYTES
    began, spent, count = time.perf_counter(), time.process_time(), 0
    while (took := time.perf_counter() - began) < seconds:
        os.write(descriptor, octets)
        os.fdatasync(descriptor)
        count += 1
    os.close(descriptor)
    return Sample(count / took, (time.process_time() - spent) * 1e6 / count)
