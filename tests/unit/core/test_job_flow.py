"""Limits, pauses and turns of limit keys, in the pure machine."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from driftq.core.jobs.limits import ClaimLimit, ClaimRate, QueueLimits
from driftq.core.jobs.queue import AGE_STEP_MS
from tests.unit.core.job_machine import PureJobs


@pytest.fixture
def jobs() -> PureJobs:
    return PureJobs()


def per_key(concurrency: int | None = None, rate: ClaimRate | None = None) -> QueueLimits:
    return QueueLimits(per_key=ClaimLimit(concurrency, rate))


def whole(concurrency: int | None = None, rate: ClaimRate | None = None) -> QueueLimits:
    return QueueLimits(queue=ClaimLimit(concurrency, rate))


@pytest.mark.clause("J18")
def test_keys_of_one_priority_take_turns(jobs: PureJobs) -> None:
    flood = [jobs.enqueue(key="flood") for _ in range(10)]
    small = [jobs.enqueue(key=name) for name in ("a", "b", "a", "b")]
    claimed = [offset for offset, _ in jobs.claim(limit=6)]
    assert claimed == [flood[0], small[0], small[1], flood[1], small[2], small[3]]
    assert [offset for offset, _ in jobs.claim(limit=20)] == flood[2:]


@pytest.mark.clause("J18")
def test_jobs_without_a_key_take_turns_as_one_more_key(jobs: PureJobs) -> None:
    plain = [jobs.enqueue() for _ in range(3)]
    keyed = [jobs.enqueue(key="a") for _ in range(3)]
    assert [offset for offset, _ in jobs.claim(limit=6)] == [
        plain[0],
        keyed[0],
        plain[1],
        keyed[1],
        plain[2],
        keyed[2],
    ]


@pytest.mark.clause("J18", "J2", "J4")
@pytest.mark.parametrize("seed", range(30))
def test_jobs_of_a_single_key_are_claimed_as_jobs_without_one(seed: int) -> None:
    """Priority with age, then due time, then order of enqueueing; retries and run times take part."""
    plain, keyed = PureJobs(), PureJobs()
    chance = random.Random(seed)
    held: list[tuple[int, int]] = []
    for _ in range(150):
        step = chance.random()
        if step < 0.5:
            priority, delay = chance.randrange(10), chance.choice((0, 0, 0, 700, 90_000))
            plain.enqueue(priority=priority, delay_ms=delay)
            keyed.enqueue(priority=priority, delay_ms=delay, key="only")
        elif step < 0.7:
            limit = chance.choice((1, 3))
            expected = plain.claim(limit=limit, lease_ms=10_000_000)
            assert keyed.claim(limit=limit, lease_ms=10_000_000) == expected
            held += expected
        elif step < 0.85 and held:
            offset, token = held.pop(chance.randrange(len(held)))
            for jobs in (plain, keyed):
                jobs.fail(offset, token)
        elif step < 0.9 and held:
            offset, _ = held.pop()
            for jobs in (plain, keyed):
                jobs.cancel(offset)
        else:
            ms = chance.choice((1, 400, AGE_STEP_MS, 3 * AGE_STEP_MS))
            for jobs in (plain, keyed):
                jobs.pass_time(ms)
        if chance.random() < 0.05:
            keyed.restart()


@pytest.mark.clause("J18")
def test_a_key_at_its_limit_delays_only_its_own_jobs(jobs: PureJobs) -> None:
    jobs.limit("mail", per_key(concurrency=2))
    flood = [jobs.enqueue(key="flood") for _ in range(5)]
    other = jobs.enqueue(key="other")
    first = jobs.claim(limit=10)
    assert [offset for offset, _ in first] == [flood[0], other, flood[1]]
    assert jobs.claim() == []
    jobs.complete(*first[1])
    assert jobs.claim() == []
    jobs.complete(*first[0])
    assert [offset for offset, _ in jobs.claim(limit=10)] == [flood[2]]


@pytest.mark.clause("J18")
@pytest.mark.parametrize("ending", ["complete", "retry", "dead", "cancel", "lease"])
def test_every_end_of_a_lease_frees_its_slot(jobs: PureJobs, ending: str) -> None:
    jobs.limit("mail", QueueLimits(ClaimLimit(1), ClaimLimit(1)))
    jobs.jitter = 1.0
    jobs.enqueue(key="a", max_retries=1 if ending == "retry" else 0)
    waiting = jobs.enqueue(key="a", priority=1)
    (held,) = jobs.claim(limit=5, lease_ms=1_000)
    if ending == "complete":
        jobs.complete(*held)
    elif ending in ("retry", "dead"):
        jobs.fail(*held)
    elif ending == "cancel":
        jobs.cancel(held[0])
    else:
        jobs.pass_time(1_000)
    assert [offset for offset, _ in jobs.claim(limit=5)] == [waiting]


@pytest.mark.clause("J18")
def test_a_rate_holds_in_every_window_and_after_a_restart(jobs: PureJobs) -> None:
    jobs.limit("mail", whole(rate=ClaimRate(3, 1_000)))
    for _ in range(50):
        jobs.enqueue()
    claimed: list[int] = []
    chance = random.Random(7)
    while len(claimed) < 30:
        claimed += [jobs.now] * len(jobs.claim(limit=chance.choice((1, 2, 10)), lease_ms=10_000_000))
        jobs.pass_time(chance.choice((1, 90, 400, 999)))
        if chance.random() < 0.2:
            jobs.restart()
    for first, fourth in zip(claimed, claimed[3:], strict=False):
        assert fourth - first >= 1_000
    assert claimed[-1] - claimed[0] < 30_000


@pytest.mark.clause("J18")
def test_a_rate_of_a_key_says_when_the_next_claim_is_due(jobs: PureJobs) -> None:
    jobs.limit("mail", per_key(rate=ClaimRate(1, 5_000)))
    for name in ("a", "a", "b"):
        jobs.enqueue(key=name)
    began = jobs.now
    assert len(jobs.claim(limit=9, lease_ms=60_000)) == 2
    assert jobs.claim() == []
    assert jobs.table.next_due("mail", lead_ms=0) == began + 5_000
    jobs.pass_time(4_999)
    assert jobs.claim() == []
    jobs.pass_time(1)
    assert len(jobs.claim()) == 1


@pytest.mark.clause("J18")
def test_another_limit_holds_from_now_on(jobs: PureJobs) -> None:
    jobs.limit("mail", per_key(concurrency=1))
    for _ in range(4):
        jobs.enqueue(key="a")
    assert len(jobs.claim(limit=9)) == 1
    jobs.limit("mail", per_key(concurrency=3))
    assert len(jobs.claim(limit=9)) == 2
    jobs.limit("mail", QueueLimits())
    assert len(jobs.claim(limit=9)) == 1


@pytest.mark.clause("J20")
def test_a_paused_queue_hands_out_nothing_and_loses_nothing(jobs: PureJobs) -> None:
    first = jobs.enqueue()
    other = jobs.enqueue("video")
    jobs.pause()
    second = jobs.enqueue(key="a")
    assert [offset for offset, _ in jobs.claim("mail", "video", limit=9)] == [other]
    assert jobs.table.next_due("mail", lead_ms=0) is None
    jobs.restart()
    assert jobs.claim("mail", limit=9) == []
    jobs.pause(paused=False)
    assert [offset for offset, _ in jobs.claim("mail", limit=9)] == [first, second]


@pytest.mark.clause("J20")
def test_what_runs_when_a_queue_is_paused_ends_as_usual(jobs: PureJobs) -> None:
    jobs.enqueue()
    (held,) = jobs.claim()
    jobs.pause()
    jobs.heartbeat(*held)
    jobs.complete(*held)
    assert jobs.state(held[0]) == "succeeded"


@pytest.mark.clause("J18")
def test_no_priority_starves_where_keys_take_turns(jobs: PureJobs) -> None:
    """A priority is as old as the oldest job in it, whoever's turn it is."""
    patient = [jobs.enqueue(priority=0, key="patient"), jobs.enqueue(priority=0, key="patient")]
    claimed: list[int] = []
    for minute in range(24):
        jobs.enqueue(priority=9, key=f"rush-{minute}")
        jobs.enqueue(priority=0, key=f"fresh-{minute}")
        claimed += [offset for offset, _ in jobs.claim(limit=1, lease_ms=40_000_000)]
        jobs.pass_time(AGE_STEP_MS)
    assert patient[0] in claimed


@pytest.mark.clause("J18")
def test_keys_without_jobs_are_forgotten(jobs: PureJobs) -> None:
    jobs.limit("mail", per_key(concurrency=1, rate=ClaimRate(1, 1_000)))
    for number in range(500):
        jobs.enqueue(key=f"key-{number}")
    for held in jobs.claim(limit=1_000, lease_ms=60_000):
        jobs.complete(*held)
    jobs.pass_time(1_000)
    assert jobs.claim() == []
    turns = jobs.table.flow.queues["mail"].turns
    assert turns is not None
    assert not turns.keys
    assert not jobs.table.flow.limit_keys


@pytest.mark.clause("J18", "J20")
@pytest.mark.parametrize("seed", range(40))
def test_limits_hold_in_any_history(seed: int) -> None:
    """A plain model counts leases and claims; at the end every job has been handed out."""
    jobs, chance = PureJobs(), random.Random(seed)
    jobs.jitter = 0.5
    key_limit = ClaimLimit(chance.choice((None, 1, 2)), chance.choice((None, ClaimRate(2, 3_000))))
    queue_limit = ClaimLimit(chance.choice((None, 3)), chance.choice((None, ClaimRate(5, 2_000))))
    jobs.limit("mail", QueueLimits(queue_limit, key_limit))
    key_of: dict[int, str] = {}
    held: dict[int, tuple[int, int]] = {}
    starts: list[tuple[int, str]] = []
    paused = False
    for step in range(400):
        action = chance.random()
        if action < 0.3 and step < 250:
            key = chance.choice(("", "a", "a", "a", "b", "c"))
            delay = chance.choice((0, 0, 500))
            priority = chance.choice((5, 5, 7))
            key_of[jobs.enqueue(key=key, priority=priority, delay_ms=delay, max_retries=50)] = key
        elif action < 0.65:
            granted = jobs.claim(limit=chance.choice((1, 2, 9)), lease_ms=4_000)
            assert not (granted and paused)
            for offset, token in granted:
                held[offset] = (token, jobs.now + 4_000)
                starts.append((jobs.now, key_of[offset]))
        elif action < 0.8 and held:
            offset = chance.choice([*held])
            token, _ = held.pop(offset)
            if chance.random() < 0.6:
                jobs.complete(offset, token)
            else:
                jobs.fail(offset, token)
        elif action < 0.84:
            paused = not paused
            jobs.pause(paused=paused)
        elif action < 0.87:
            jobs.restart()
        else:
            jobs.pass_time(chance.choice((1, 300, 1_500)))
        held = {offset: one for offset, one in held.items() if one[1] > jobs.now}
        _check(held, key_of, starts, queue_limit, key_limit)
    jobs.pause(paused=False)
    idle = 0
    while idle < 80:
        granted = jobs.claim(limit=9, lease_ms=4_000)
        for offset, token in granted:
            jobs.complete(offset, token)
        jobs.pass_time(500)
        idle = 0 if granted else idle + 1
    assert {jobs.state(offset) for offset in key_of} <= {"succeeded"}


def _check(
    held: dict[int, tuple[int, int]],
    key_of: dict[int, str],
    starts: list[tuple[int, str]],
    queue_limit: ClaimLimit,
    key_limit: ClaimLimit,
) -> None:
    if queue_limit.concurrency is not None:
        assert len(held) <= queue_limit.concurrency
    if key_limit.concurrency is not None:
        keyed = Counter(key_of[offset] for offset in held if key_of[offset])
        assert max(keyed.values(), default=0) <= key_limit.concurrency
    if queue_limit.rate is not None:
        _check_rate([at for at, _ in starts], queue_limit.rate)
    if key_limit.rate is not None:
        for name in ("a", "b", "c"):
            _check_rate([at for at, key in starts if key == name], key_limit.rate)


def _check_rate(times: list[int], rate: ClaimRate) -> None:
    for first, later in zip(times, times[rate.count :], strict=False):
        assert later - first >= rate.per_ms
