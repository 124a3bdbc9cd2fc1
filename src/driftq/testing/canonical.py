"""A state as plain values that can be compared, and the fold of a folder to compare it with."""

from typing import Any

from driftq.core.effects import EffectTable
from driftq.core.group import GroupPartition
from driftq.core.index import PartitionIndex
from driftq.core.jobs.limits import ClaimLimit, ClaimMeter
from driftq.core.jobs.table import JobTable
from driftq.core.keys import KeyTable
from driftq.core.schedules.table import ScheduleTable
from driftq.core.state import State, Topic
from driftq.log.files import Folder
from driftq.log.handles import OpenSegments
from driftq.log.recovery import examine
from driftq.model.options.limits import Limits
from driftq.storage.restore import folding, restore


def fold_folder(folder: Folder, limits: Limits) -> State:
    """The state that a restart would fold from the files; changes nothing."""
    found = restore(folder, limits)
    examine(folder, OpenSegments(folder), folding(found.state), after=found.end)
    return found.state


def canonical(state: State, *, now: int) -> dict[str, Any]:
    """Everything that the log determines, as of `now`, without caches in memory."""
    state.keys.expire(now)
    state.effects.expire(now)
    state.jobs.expire(now)
    return {
        "last_at": state.last_at,
        "next_topic": state.next_topic,
        "next_group": state.next_group,
        "keys": _keys(state.keys),
        "dead_letter_ids": list(state.dead_letter_ids),
        "effects": _effects(state.effects),
        "jobs": _jobs(state.jobs, now),
        "schedules": _schedules(state.schedules, now),
        "owners": {"queues": state.owners.queues, "aggregate_types": state.owners.aggregate_types},
        "topics": {name: _topic(topic, now) for name, topic in sorted(state.topics.items())},
        "deleted_topics": sorted(state.deleted_topics.dump(now=now)),
    }


def differences(one: Any, other: Any, path: str = "") -> list[str]:
    """The differences of two canonical values, in words."""
    if isinstance(one, dict) and isinstance(other, dict):
        return [
            line
            for name in sorted({*one, *other}, key=str)
            for line in differences(one.get(name), other.get(name), f"{path}/{name}")
        ]
    return [] if one == other else [f"{path}: {one!r} is not {other!r}"]


def unsettled(topic: Topic, partition: int, *, limits: Limits, now: int) -> tuple[int, int]:
    """Messages and bytes that the slowest group or reader seen lately has not settled, counted one by one."""
    since = now - topic.retention_ms
    index = topic.partitions[partition].index
    kept = range(index.first, index.end)
    sizes = {ordinal: index.bytes_upto(ordinal + 1) - index.bytes_upto(ordinal) for ordinal in kept}
    is_delayed = index.specials.is_delayed
    counts = [(0, 0)]
    for group in topic.groups.values():
        if group.seen_at < since:
            continue
        progress = group.partitions[partition]
        open_ = [size for ordinal, size in sizes.items() if not progress.is_settled(ordinal)]
        delayed = [ordinal for ordinal in sizes if ordinal >= progress.floor and is_delayed(ordinal)]
        counts.append((len(open_) - len(delayed), sum(open_)))
    for reader, positions in topic.readers.items():
        if topic.seen_at[reader] < since:
            continue
        rest = {ordinal: size for ordinal, size in sizes.items() if ordinal >= positions[partition]}
        counts.append((len(rest) - sum(map(is_delayed, rest)), sum(rest.values())))
    return max(count for count, _ in counts), max(size for _, size in counts)


def _topic(topic: Topic, now: int) -> dict[str, Any]:
    return {
        "id": topic.id,
        "options": topic.options,
        "tenant": topic.tenant,
        "next_offset": topic.next_offset,
        "start_offset": topic.start_offset,
        "created_at": topic.created_at,
        "deleted_groups": sorted(topic.deleted_groups.dump(now=now)),
        "partitions": {number: _index(part.index) for number, part in enumerate(topic.partitions)},
        "delayed": {
            number: (part.index.specials.next_instant(), _delayed(part.index))
            for number, part in enumerate(topic.partitions)
        },
        "groups": {
            name: {
                "id": group.id,
                "partitions": {number: _progress(part) for number, part in enumerate(group.partitions)},
            }
            for name, group in sorted(topic.groups.items())
        },
        "readers": dict(sorted(topic.readers.items())),
        "writers": {
            name: (writer.epoch, dict(sorted(writer.lanes.items())))
            for name, writer in sorted(topic.writers.items())
        },
    }


def _effects(effects: EffectTable) -> dict[str, Any]:
    return {
        "pending": dict(effects.pending),
        "failed": dict(effects.failed),
        "committed": _keys(effects.committed),
        "long": _keys(effects.long),
        "steps_done": _keys(effects.steps_done),
        "next_token": effects.next_token,
    }


def _jobs(jobs: JobTable, now: int) -> dict[str, Any]:
    return {
        "base": jobs.base,
        "next_token": jobs.next_token,
        "columns": list(
            zip(
                jobs.states,
                jobs.priorities,
                jobs.queue_numbers,
                jobs.attempts,
                jobs.due,
                jobs.by_wall,
                strict=True,
            )
        ),
        "limits": list(zip(jobs.max_retries, jobs.timeouts, strict=True)),
        "retries": [jobs.retries.at(slot) for slot in range(len(jobs.states))],
        "queues": jobs.queue_names,
        "grants": dict(jobs.grants),
        "histories": dict(jobs.histories),
        "results": dict(jobs.results),
        "errors": dict(jobs.errors),
        "completed": dict(jobs.completed_tokens),
        "keys": sorted(jobs.keys),
        "next_end": jobs.next_end(),
        "next_due": {
            name: jobs.next_due(name, lead_ms=0) for name in jobs.queue_names if name not in jobs.flow.queues
        },
        "unmet": dict(jobs.dependencies.unmet),
        "outcomes": dict(jobs.dependencies.outcomes),
        "flow": _flow(jobs, now),
    }


def _flow(jobs: JobTable, now: int) -> dict[str, Any]:
    """Limits and what counts towards them; whose turn it is may differ after a restart."""
    return {
        "limit_keys": dict(jobs.flow.limit_keys),
        "queues": {
            name: {
                "limits": flow.limits,
                "paused": flow.paused,
                "in_flight": flow.meter.in_flight,
                "claims": _claims(flow.meter, flow.limits.queue, now),
                "keys": {
                    key.name: (key.in_flight, _claims(key, flow.limits.per_key, now))
                    for key in (flow.turns.keys.values() if flow.turns is not None else ())
                    if key.in_flight or _claims(key, flow.limits.per_key, now)
                },
            }
            for name, flow in sorted(jobs.flow.queues.items())
        },
    }


def _claims(meter: ClaimMeter, limit: ClaimLimit, now: int) -> list[int]:
    """The times of the claims that the rate still counts."""
    return [at for at in meter.times if limit.rate is not None and at + limit.rate.per_ms > now]


def _schedules(table: ScheduleTable, now: int) -> dict[str, Any]:
    return {
        "schedules": dict(sorted(table.schedules.items())),
        "removed": sorted(table.removed.dump(now=now)),
        "next_at": table.next_at(),
    }


def _index(index: PartitionIndex) -> list[tuple[int, int, int]]:
    """Offset, length with flags and cumulative bytes of each stored message; its location may change."""
    return [
        (offset, place & 0xFFFFFFFF, end)
        for chunk in index.chunks
        for ordinal, offset, place, end in zip(
            range(chunk.first, chunk.end), chunk.offsets, chunk.places, chunk.ends, strict=True
        )
        if ordinal >= index.first
    ]


def _delayed(index: PartitionIndex) -> list[int]:
    return [ordinal for ordinal, *_, delayed in index.specials.between(index.first, index.end) if delayed]


def _progress(progress: GroupPartition) -> dict[str, Any]:
    unsettled = [
        ordinal for ordinal in range(progress.floor, progress.upto) if not progress.is_settled(ordinal)
    ]
    return {
        "floor": progress.floor,
        "upto": progress.upto,
        "acked": progress.acked,
        "unsettled": unsettled,
        "ahead_count": progress.ahead_count,
        "ahead_bytes": progress.ahead_bytes,
        "leases": {
            ordinal: (block.owner, block.lease_ms, block.until)
            for ordinal, block in progress.leases.leased.items()
        },
        "lease_end": progress.leases.next_end(),
        "attempt_base": progress.attempt_base,
        "highest_attempt": progress.highest_attempt,
        "attempts": {ordinal: progress.attempt_of(ordinal) for ordinal in unsettled},
        "errors": {ordinal: progress.errors.get(ordinal, "") for ordinal in unsettled},
        "waiting": dict(progress.waiting),
        "delayed": progress.delayed,
        "due_first": list(filter(progress.awaits_first, progress.due_first or ())),
    }


def _keys(keys: KeyTable) -> dict[int, list[Any]]:
    return {print_: sorted(map(repr, keys.find(print_))) for print_ in sorted(keys)}
