"""One group with 1, 10, 100 and 1,000 streams: what it costs to hand messages to many consumers.

The same 8,000 messages are under way however many streams share them. A stream acks 20 at once, so that 1 and
100 streams send as many acks; of 1,000 each may hold 8 messages and acks 2.
"""

from functools import partial

from bench.beside.setting import PARTITIONS, VALUE, create_topic
from bench.harness.figure import Figure, at_least
from bench.harness.flow import Shape, run_flow
from bench.harness.flow_driftq import DriftqPort
from bench.harness.plan import plan
from bench.harness.rounds import Sample, Side, interleave
from bench.machine import Server, server

COUNTS = (1, 10, 100, 1_000)
WINDOW = 8_000
BATCH = 100
ACK = 20
CONNECTIONS = 8
"""A server takes 1,024 connections, and a stream is one."""
AIMS = {100: 0.65}


def streams() -> list[Figure]:
    with server() as running:
        for count in COUNTS:
            create_topic(running, f"streams-{count}")
        found = interleave([Side(_name(count), partial(_run, running, count)) for count in COUNTS])
    one = _name(1)
    return [
        found.figure(
            f"one group, {_name(count)}",
            _name(count),
            "messages/s",
            ratio_to=one if count > 1 else "",
            ratio_aim=at_least(AIMS[count]) if count in AIMS else None,
        )
        for count in COUNTS
    ]


def _run(running: Server, count: int) -> Sample:
    shape = Shape(
        batch=BATCH, ack=ACK, window=WINDOW, partitions=PARTITIONS, streams=count, connections=CONNECTIONS
    )
    port = DriftqPort(running.port, f"streams-{count}", VALUE)
    return run_flow(port, shape, plan().seconds, running.measured)


def _name(count: int) -> str:
    return f"{count:,} stream{'s' if count > 1 else ''}"
