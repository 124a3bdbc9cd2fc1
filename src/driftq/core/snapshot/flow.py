"""Limits, pauses, limit keys and dependencies of jobs as named byte strings and back.

Who waits for whose turn is not stored: it follows from the jobs.
"""

from collections.abc import Mapping

import msgspec

from driftq.core.jobs.limits import QueueLimits
from driftq.core.jobs.table import JobTable

_encode = msgspec.msgpack.Encoder().encode


class _Queue(msgspec.Struct, array_like=True):
    limits: QueueLimits
    paused: bool
    times: list[int]
    key_times: dict[str, list[int]]


class _Flow(msgspec.Struct, array_like=True):
    queues: dict[str, _Queue]
    limit_keys: dict[int, str]
    unmet: dict[int, list[int]]
    outcomes: dict[int, int]


_flow = msgspec.msgpack.Decoder(_Flow)


def dump_flow(jobs: JobTable) -> dict[str, bytes]:
    flow, dependencies = jobs.flow, jobs.dependencies
    if not flow.queues and not dependencies.unmet:
        return {}
    facts = _Flow(
        queues={
            name: _Queue(
                limits=queue.limits,
                paused=queue.paused,
                times=list(queue.meter.times),
                key_times={
                    key.name: list(key.times)
                    for key in (queue.turns.keys.values() if queue.turns is not None else ())
                    if key.times
                },
            )
            for name, queue in flow.queues.items()
        },
        limit_keys=flow.limit_keys,
        unmet={child: sorted(parents) for child, parents in dependencies.unmet.items()},
        outcomes=dependencies.outcomes,
    )
    return {"jobs.flow": _encode(facts)}


def load_flow(parts: Mapping[str, memoryview], jobs: JobTable) -> None:
    """After the columns and the leases, and before the waiting jobs are entered anywhere."""
    if "jobs.flow" not in parts:
        return
    facts = _flow.decode(parts["jobs.flow"])
    for offset, key in facts.limit_keys.items():
        jobs.flow.set_key(jobs, offset, queue=jobs.queues[jobs.queue_of(offset)], key=key)
    for name, dumped in facts.queues.items():
        queue = jobs.flow.queue(jobs, name)
        queue.limits, queue.paused = dumped.limits, dumped.paused
        queue.meter.times.extend(dumped.times)
        if dumped.key_times:
            turns = jobs.flow.turns(jobs, name)
            for key, times in dumped.key_times.items():
                turns.key(key).times.extend(times)
    for offset in jobs.grants:
        held = jobs.flow.limit_keys.get(offset)
        if held is not None:
            jobs.flow.turns(jobs, jobs.queue_of(offset)).key(held).in_flight += 1
    for queue in jobs.flow.queues.values():
        if queue.turns is not None:
            for known in queue.turns.keys.values():
                queue.turns.remember(known, queue.limits.per_key)
    jobs.dependencies.load(facts.unmet, facts.outcomes)
