"""The time to an answer at half of the peak, with requests at fixed times.

A request counts from the moment it was due. One that waits because the server is slow, or because every
connection is taken, therefore counts with its whole wait: a pause of the server is not left out, as it is by
clients that stop asking meanwhile (coordinated omission).
"""

import asyncio
import statistics
import time
from collections.abc import Callable
from functools import partial

import uvloop

from bench.beside.setting import OURS, PARTITIONS, REDIS, VALUE, create_topic
from bench.harness.figure import Figure, at_most
from bench.harness.lean import Pool, has_line_ends, http_post, is_http_whole, resp
from bench.harness.plan import plan
from bench.harness.rounds import Sample, Side, interleave, p50_ms, p99_ms
from bench.harness.valkey import Valkey, valkey
from bench.harness.wrk import Produces, load
from bench.machine import Measured, Server, folder, server, settled

CONNECTIONS = 64
TICK_S = 0.0005
KEYS = 1_000


def fixed_rate() -> list[Figure]:
    with folder() as place, valkey(place) as redis, server() as running:
        create_topic(running, "fixed")
        peak = load(running, Produces("fixed"), connections=CONNECTIONS, seconds=plan().seconds).rate
        rate = peak / 2
        found = interleave(
            [Side(OURS, partial(_ours, running, rate)), Side(REDIS, partial(_theirs, redis, rate))]
        )
    name = f"produce at a fixed {rate:,.0f}/s, half of the peak"
    return [
        found.figure(f"{name}, p50", OURS, "ms", ratio_to=REDIS, of=p50_ms),
        found.figure(f"{name}, p99", OURS, "ms", ratio_to=REDIS, ratio_aim=at_most(2), of=p99_ms),
        found.figure(f"{name}, p99: Redis", REDIS, "ms", of=p99_ms),
    ]


def _ours(running: Server, rate: float) -> Sample:
    text = '{"topic":"fixed","key":"user:%012d","value":"%s"}'
    bodies = [http_post("/v1/produce", (text % (number, VALUE)).encode()) for number in range(KEYS)]
    return _paced(running.port, Pool(is_http_whole), bodies, rate, running.measured)


def _theirs(redis: Valkey, rate: float) -> Sample:
    bodies = [
        resp("XADD", f"fixed-{number % PARTITIONS}", "*", "key", f"user:{number:012d}", "value", VALUE)
        for number in range(KEYS)
    ]
    return _paced(redis.port, Pool(has_line_ends(2)), bodies, rate, redis)


def _paced(port: int, pool: Pool, bodies: list[bytes], rate: float, of: Measured) -> Sample:
    with settled(), of.running():
        before = of.spent_s()
        waits = uvloop.run(send_paced(pool, port, bodies, rate, plan().seconds))
        spent = of.spent_s() - before
    cuts = statistics.quantiles(waits, n=100)
    return Sample(rate, spent * 1e6 / len(waits), cuts[49] * 1000, cuts[98] * 1000)


async def send_paced(pool: Pool, port: int, bodies: list[bytes], rate: float, seconds: float) -> list[float]:
    """Send `rate` requests a second; the seconds from when each was due to its answer."""
    await pool.open(port, CONNECTIONS)
    waits: list[float] = []
    all_answered = asyncio.Event()
    count = int(rate * seconds)
    began = time.perf_counter()

    def answered(due: float) -> Callable[[bytes], None]:
        def note(_answer: bytes) -> None:
            waits.append(time.perf_counter() - due)
            if len(waits) == count:
                all_answered.set()

        return note

    sent = 0
    while sent < count:
        due = min(count, int((time.perf_counter() - began) * rate))
        for number in range(sent, due):
            pool.send(bodies[number % len(bodies)], answered(began + number / rate))
        sent = due
        await asyncio.sleep(TICK_S)
    await asyncio.wait_for(all_answered.wait(), 30)
    pool.close()
    return waits
