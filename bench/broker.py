"""The broker's own figures: durable produces over HTTP, core and log alone, memory a message."""

import gc
import json
import time
import urllib.request
from typing import NoReturn, cast

from bench.harness.figure import Figure, at_least, below
from bench.load import answers_per_second, http_request
from bench.machine import Server, folder, server
from driftq.core.commands import Ack, Capacity, Produce
from driftq.core.decide import decide_acks, decide_deliveries, decide_group, decide_produce, decide_topic
from driftq.core.decide.produce import Accepted
from driftq.http.wire.server import GC_THRESHOLD
from driftq.log.disk import OsFolder
from driftq.log.log import Log
from driftq.model import Message, TopicOptions
from driftq.model.options.limits import Limits
from driftq.server.produce.prepare import prepare_all
from driftq.storage.journal import Journal
from driftq.storage.payloads import Payloads

SECONDS = 6.0
VALUE = "x" * 200


def _create(running: Server, topic: str) -> None:
    body = json.dumps({"name": topic}).encode()
    request = urllib.request.Request(f"http://127.0.0.1:{running.port}/v1/topics", body, method="POST")
    urllib.request.urlopen(request).close()


def core() -> list[Figure]:
    """Produce, logged delivery and ack of 64 gathered messages, written without sync, no HTTP."""
    messages = [Message(topic="t", value=VALUE) for _ in range(64)]
    limits = Limits()
    with folder() as place:
        log = Log.open(OsFolder(str(place)))
        journal = Journal(log, Payloads(log), limits=limits)
        journal.recover()
        now = time.time_ns() // 1_000_000
        created = decide_topic(journal.state, "t", partitions=1, options=TopicOptions(), now=now)
        assert created is not None
        journal.add(created)
        topic = journal.state.topics["t"]
        joined = decide_group(journal.state, topic, "g", latest=False, now=now)
        assert joined is not None
        journal.add(joined)
        group = topic.groups["g"]
        gc.collect()
        gc.freeze()  # As the server does when it has started.
        gc.set_threshold(GC_THRESHOLD)
        began, count = time.perf_counter(), 0
        while (took := time.perf_counter() - began) < SECONDS:
            now += 1
            commands = cast(list[Produce], prepare_all(messages, at=now))
            batch = decide_produce(journal.state, topic, commands, lookup=_never, now=now, wall=now)
            for record, entries in batch.records:
                journal.add_stored(record, entries)
            assignment = decide_deliveries(group, 0, [Capacity(0, "w", 30_000, 64)], limits=limits, now=now)
            assert assignment is not None
            journal.add_delivered(assignment.record)
            acks = [Ack("w", 0, offset) for _, offset in cast(list[Accepted], batch.outcomes)]
            settled, _ = decide_acks(topic, group, acks, now=now)
            for one in settled:
                journal.add(one)
            for frame in journal.take():
                log.write(frame)
            log.confirm()
            count += 64
        log.close()
    rate = count / took
    return [
        Figure(
            "core + log: produce, logged delivery, ack (64 gathered, no sync)",
            rate,
            "messages/s",
            at_least(250000),
        )
    ]


def _never(_claim: object) -> NoReturn:
    raise AssertionError("no keys are in use")


def memory() -> list[Figure]:
    """Memory of the server for each message it keeps, beyond what it needs when idle."""
    with server("--fsync", "off") as running:
        _create(running, "kept")
        body = json.dumps({"messages": [{"topic": "kept", "value": VALUE}] * 500}).encode()
        request = http_request("/v1/produce/batch", body)
        answers_per_second(running.port, request, connections=2, seconds=2.0)
        idle, first = running.memory_bytes(), _kept(running)
        answers_per_second(running.port, request, connections=2, seconds=SECONDS)
        grown, kept = running.memory_bytes() - idle, _kept(running) - first
    each = grown / kept
    return [Figure(f"memory per kept message ({kept:,} kept)", each, "B", below(60))]


def _kept(running: Server) -> int:
    with urllib.request.urlopen(f"http://127.0.0.1:{running.port}/v1/topics/kept") as answer:
        return int(json.load(answer)["partitions"][0]["messages"])
