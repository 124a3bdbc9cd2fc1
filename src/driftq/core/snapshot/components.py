"""Terms, effects, jobs, owners and the ids of dead letters as named byte strings and back."""

from array import array
from collections.abc import Mapping

import msgspec

from driftq.core.effects import EffectTable, FailedEffect, Identity, PendingEffect
from driftq.core.jobs.ended_run import EndedRun
from driftq.core.jobs.table import JobGrant, JobState, JobTable
from driftq.core.owners import OwnerTable
from driftq.core.records import DeliveryTerms
from driftq.core.snapshot.flow import dump_flow, load_flow
from driftq.core.snapshot.schedules import dump_schedules, load_schedules
from driftq.core.state import State

Parts = Mapping[str, memoryview]


class _Effects(msgspec.Struct, array_like=True):
    next_token: int
    pending: list[tuple[Identity, PendingEffect]]
    failed: list[tuple[Identity, FailedEffect]]
    leaving: list[tuple[int, Identity, int]]


class _Jobs(msgspec.Struct, array_like=True):
    base: int
    next_token: int
    queue_names: list[str]
    grants: dict[int, JobGrant]
    histories: dict[int, list[EndedRun]]
    results: dict[int, str | None]
    errors: dict[int, str]
    completed_tokens: dict[int, int]
    prints: dict[int, int]
    recent: list[int]
    leaving: list[tuple[int, int]]
    ended_at: dict[int, int]


class _Owners(msgspec.Struct, array_like=True):
    queues: dict[str, str]
    aggregate_types: dict[str, str]


_COLUMNS = ("queue_numbers", "attempts", "max_retries", "due", "timeouts")
_FLAGS = ("states", "priorities", "by_wall")
_encode = msgspec.msgpack.Encoder().encode
_terms = msgspec.msgpack.Decoder(list[DeliveryTerms])
_effects = msgspec.msgpack.Decoder(_Effects)
_jobs = msgspec.msgpack.Decoder(_Jobs)
_owners = msgspec.msgpack.Decoder(_Owners)


def dump_components(state: State) -> dict[str, bytes]:
    """All of them."""
    return {
        "terms": _encode(state.terms[1:]),
        **state.dead_letter_ids.dump("dead_letter_ids"),
        **_dump_effects(state.effects),
        **_dump_jobs(state.jobs),
        **_dump_owners(state.owners),
        **dump_schedules(state.schedules, now=state.last_at),
    }


def load_components(parts: Parts, state: State) -> None:
    """Into a state that has none of them yet; an older snapshot may lack some."""
    if "terms" in parts:
        for terms in _terms.decode(parts["terms"]):
            state.number_of(terms)
    if "effects" in parts:
        _load_effects(parts, state.effects)
    if "jobs" in parts:
        _load_jobs(parts, state.jobs, last_at=state.last_at)
    if "owners" in parts:
        _load_owners(parts, state.owners)
    state.dead_letter_ids.load(parts, "dead_letter_ids")
    load_schedules(parts, state.schedules)


def _dump_effects(effects: EffectTable) -> dict[str, bytes]:
    facts = _Effects(
        next_token=effects.next_token,
        pending=[(identity, one) for (identity, _), one in effects.pending.items()],
        failed=[(identity, one) for (identity, _), one in effects.failed.items()],
        leaving=list(effects.leaving),
    )
    return {
        "effects": _encode(facts),
        **effects.committed.dump("effect_keys"),
        **effects.long.dump("long_effect_keys"),
        **effects.steps_done.dump("step_keys"),
    }


def _load_effects(parts: Parts, effects: EffectTable) -> None:
    facts = _effects.decode(parts["effects"])
    effects.next_token = facts.next_token
    effects.restore(facts.pending, facts.failed)
    effects.leaving.extend(facts.leaving)
    effects.committed.load(parts, "effect_keys")
    effects.long.load(parts, "long_effect_keys")
    effects.steps_done.load(parts, "step_keys")


def _dump_jobs(jobs: JobTable) -> dict[str, bytes]:
    facts = _Jobs(
        base=jobs.base,
        next_token=jobs.next_token,
        queue_names=jobs.queue_names,
        grants=jobs.grants,
        histories=jobs.histories,
        results=jobs.results,
        errors=jobs.errors,
        completed_tokens=jobs.completed_tokens,
        prints=jobs.prints,
        recent=list(jobs.recent),
        leaving=list(jobs.leaving),
        ended_at=jobs.ended_at,
    )
    columns = {f"jobs.{name}": getattr(jobs, name).tobytes() for name in _COLUMNS}
    flags = {f"jobs.{name}": bytes(getattr(jobs, name)) for name in _FLAGS}
    return {"jobs": _encode(facts), **columns, **flags, **jobs.retries.dump(), **dump_flow(jobs)}


def _load_jobs(parts: Parts, jobs: JobTable, *, last_at: int) -> None:
    facts = _jobs.decode(parts["jobs"])
    jobs.base, jobs.next_token = facts.base, facts.next_token
    for name in facts.queue_names:
        jobs.queue(name)
    for name in _COLUMNS:
        column: array[int] = getattr(jobs, name)
        column.frombytes(parts[f"jobs.{name}"])
    jobs.states = bytearray(parts["jobs.states"])
    jobs.retries.load(parts, slots=len(jobs.states))
    jobs.priorities = bytearray(parts["jobs.priorities"])
    if "jobs.by_wall" in parts:
        jobs.by_wall = bytearray(parts["jobs.by_wall"])
    else:
        jobs.by_wall = _instants(jobs, last_at)
    jobs.histories, jobs.results, jobs.errors = facts.histories, facts.results, facts.errors
    jobs.completed_tokens = facts.completed_tokens
    for offset, print_ in facts.prints.items():
        jobs.prints[offset] = print_
        jobs.keys.add(print_, offset)
    jobs.recent.extend(facts.recent)
    jobs.recent_bytes = sum(len(jobs.results.get(offset) or "") for offset in facts.recent)
    jobs.leaving.extend(facts.leaving)
    jobs.ended_at = facts.ended_at
    for offset, grant in facts.grants.items():
        jobs.hold(offset, grant)
    load_flow(parts, jobs)
    for slot, state in enumerate(jobs.states):
        if state == JobState.WAITING:
            jobs.wait(jobs.base + slot, jobs.due[slot], by_wall=bool(jobs.by_wall[slot]))


def _dump_owners(owners: OwnerTable) -> dict[str, bytes]:
    return {"owners": _encode(_Owners(owners.queues, owners.aggregate_types))}


def _load_owners(parts: Parts, owners: OwnerTable) -> None:
    facts = _owners.decode(parts["owners"])
    owners.queues, owners.aggregate_types = facts.queues, facts.aggregate_types


def _instants(jobs: JobTable, last_at: int) -> bytearray:
    """Which due times of an older snapshot are instants of users: those ahead of jobs that never ran."""
    return bytearray(
        attempts == 0 and due > last_at for attempts, due in zip(jobs.attempts, jobs.due, strict=True)
    )
