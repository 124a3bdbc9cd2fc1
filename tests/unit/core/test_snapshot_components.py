"""Terms, effects, jobs and dead letters come out of a snapshot as they went in."""

from collections.abc import Iterator
from typing import Any

import pytest

from driftq.core.evolve.fold import evolve
from driftq.core.jobs.records import (
    CAUSE_FAILED,
    FailedJob,
    JobsClaimed,
    JobsCompleted,
    JobsEnqueued,
    JobsFailed,
    JobTerms,
)
from driftq.core.jobs.transitions import decide_claim
from driftq.core.records import (
    DeadLettersPurged,
    DeadLettersRedriven,
    DeliveryTerms,
    EffectBegun,
    EffectFailed,
    Record,
    TopicCreated,
)
from driftq.core.snapshot.state import dump_state, load_state
from driftq.core.state import State
from driftq.model.options.limits import Limits

ADA = ("", "orders", "billing", "a")
BEA = ("t", "orders", "billing", "b")


def history() -> Iterator[Record]:
    yield TopicCreated(at=1, topic=1, name="dlq.orders", partitions=1)
    yield DeadLettersRedriven(at=2, topic=1, offsets=[3, 4], by="ada")
    yield DeadLettersPurged(at=3, topic=1, offsets=[4, 5])
    yield EffectBegun(at=4, identity=ADA, owner="w", lease_ms=1_000, token=1)
    yield EffectBegun(at=5, identity=BEA, owner="w", lease_ms=1_000, token=2)
    yield EffectFailed(at=6, identity=BEA, error="no milk")
    yield JobsEnqueued(
        at=7,
        jobs=[
            JobTerms(offset, "mail", 5 + offset % 2, 7, 3, 500, 90 + offset if offset == 2 else 0)
            for offset in range(6)
        ]
        + [JobTerms(6, "mail", 5, 9_000, 3, 500, 0, by_wall=True)],
    )
    yield JobsClaimed(at=8, owner="w", lease_ms=1_000, first_token=1, offsets=[1, 3, 5])
    yield JobsCompleted(at=9, offsets=[1], results=['"sent"'])
    yield JobsFailed(at=10, cause=CAUSE_FAILED, jobs=[FailedJob(3, 5_000, "busy"), FailedJob(5, -1, "bad")])


@pytest.fixture
def state() -> State:
    state = State(Limits())
    for record in history():
        evolve(state, record, segment=1, blob_at=0)
    state.number_of(DeliveryTerms(max_attempts=3))
    state.number_of(DeliveryTerms(backoff_ms=10, group=7))
    return state


def loaded(state: State) -> State:
    return load_state({name: memoryview(part) for name, part in dump_state(state).items()}, state.limits)


def job_facts(state: State) -> dict[str, Any]:
    jobs = state.jobs
    names: tuple[str, ...] = (
        "base",
        "states",
        "priorities",
        "attempts",
        "max_retries",
        "due",
        "by_wall",
        "timeouts",
        "queue_names",
    )
    names += ("grants", "histories", "results", "errors", "completed_tokens", "prints", "next_token")
    return {name: getattr(jobs, name) for name in names} | {"keys": sorted(jobs.keys)}


@pytest.mark.clause("W3", "W6")
def test_jobs_are_what_they_were_and_go_on(state: State) -> None:
    again = loaded(state)
    assert job_facts(again) == job_facts(state)
    for one in (state, again):
        claimed = decide_claim(one.jobs, ["mail"], owner="x", lease_ms=100, limit=10, now=5_000, wall=5_000)
        assert claimed is not None
        assert claimed.offsets == [3, 0, 2, 4]
        assert claimed.first_token == 4
        assert one.jobs.next_end() == state.jobs.next_end()


@pytest.mark.clause("W6", "W9", "J11")
def test_a_snapshot_of_an_older_version_still_tells_a_run_at_from_a_retry(state: State) -> None:
    parts = {name: memoryview(part) for name, part in dump_state(state).items() if name != "jobs.by_wall"}
    again = load_state(parts, state.limits)
    assert job_facts(again) == job_facts(state)
    assert again.jobs.state_name(3, now=5_000, wall=0) == "ready", "a retry"
    assert again.jobs.state_name(6, now=1 << 40, wall=8_999) == "scheduled", "a run_at"
    assert again.jobs.state_name(6, now=0, wall=9_000) == "ready"


@pytest.mark.clause("W3", "W6")
def test_effects_keep_their_holders_tokens_and_errors(state: State) -> None:
    again = loaded(state)
    assert list(again.effects.pending) == [(ADA, 0)]
    assert again.effects.pending == state.effects.pending
    assert again.effects.failed == state.effects.failed
    assert again.effects.next_token == 3
    late = 6 + again.limits.effect_ttl_ms + 1_000
    again.effects.expire(late)
    assert not again.effects.pending
    assert not again.effects.failed


@pytest.mark.clause("D6", "W6")
def test_dead_letters_and_terms_are_remembered(state: State) -> None:
    again = loaded(state)
    grave = again.topics["dlq.orders"]
    assert grave.redriven == {3: (2, "ada")}
    assert grave.purged == {4, 5}
    assert again.terms == state.terms
    assert again.terms_numbers == state.terms_numbers
