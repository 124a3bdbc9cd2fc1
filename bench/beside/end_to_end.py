"""Messages from produce over one consumer to their acks, beside Redis with `XADD`, `XREADGROUP` and `XACK`.

The same lean Python loop drives both: as many messages under way, single operations on 64 connections or
batches of 100 on 8. Its own work is the same for both, and the processor time of the servers is given.
"""

from bench.beside.setting import OURS, REDIS, VALUE, create_topic
from bench.harness.figure import Figure, at_least
from bench.harness.flow import Shape, run_flow
from bench.harness.flow_driftq import DriftqPort
from bench.harness.flow_redis import RedisPort
from bench.harness.plan import plan
from bench.harness.rounds import Sample, Side, cpu_us, interleave
from bench.harness.valkey import Valkey, valkey
from bench.machine import Server, folder, server

SHAPES = {
    "single, 1 partition": (Shape(batch=1, window=64, partitions=1), 0.75),
    "single, 4 partitions": (Shape(batch=1, window=64, partitions=4), 0.75),
    "batches of 100, 1 partition": (Shape(batch=100, window=800, partitions=1), 3.0),
    "batches of 100, 4 partitions": (Shape(batch=100, window=800, partitions=4), 2.3),
}
"""And the share of Redis's rate that is aimed at."""


def end_to_end() -> list[Figure]:
    with folder() as place, valkey(place) as redis, server() as running:
        topics = [f"flow-{number}" for number in range(len(SHAPES))]
        for topic, (shape, _) in zip(topics, SHAPES.values(), strict=True):
            create_topic(running, topic, shape.partitions)
        return [
            figure
            for topic, (name, (shape, aim)) in zip(topics, SHAPES.items(), strict=True)
            for figure in _compared(running, redis, topic, name, shape, aim)
        ]


def _compared(
    running: Server, redis: Valkey, topic: str, name: str, shape: Shape, aim: float
) -> list[Figure]:
    seconds = plan().seconds

    def ours() -> Sample:
        return run_flow(DriftqPort(running.port, topic, VALUE), shape, seconds, running.measured)

    def theirs() -> Sample:
        return run_flow(RedisPort(redis.port, topic, VALUE), shape, seconds, redis)

    found = interleave([Side(OURS, ours), Side(REDIS, theirs)])
    name = f"produce → consume → ack, {name}"
    return [
        found.figure(name, OURS, "messages/s", ratio_to=REDIS, ratio_aim=at_least(aim)),
        found.figure(f"{name}: processor time", OURS, "µs", ratio_to=REDIS, of=cpu_us),
        found.figure(f"{name}: Redis", REDIS, "messages/s"),
    ]
