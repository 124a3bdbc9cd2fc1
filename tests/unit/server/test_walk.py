"""Long reads of the state: bounded slices, right results, and a new start when the state was folded again."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from random import Random
from typing import Any, TypeVar

import pytest

from driftq.core.jobs.records import JobsEnqueued, JobTerms
from driftq.core.jobs.table import JOBS_TOPIC, JobState
from driftq.core.jobs.transitions import fold_job
from driftq.core.schedules.records import ScheduleTerms
from driftq.core.schedules.table import Schedule, ScheduleTable
from driftq.core.state import Partition, State, Topic
from driftq.http.ui.overview import walk_jobs_by_state, walk_totals
from driftq.model import TopicOptions
from driftq.model.options.limits import Limits
from driftq.model.wire.ui import LiveJobs
from driftq.server.dlq.pages import walk_dlq_topics
from driftq.server.jobs.queue_views import walk_queues
from driftq.server.jobs.views import JobFilter, walk_jobs
from driftq.server.schedules.views import walk_schedules
from driftq.server.topics.views import walk_topic_names
from driftq.server.walk import SORTED_AT_ONCE, UNITS_MAX, StateWalk, Walk, in_order

LIMITS = Limits()
TOPICS = 10_000
JOBS = 200_000
NOW = 1_000_000

_T = TypeVar("_T")


class Work:
    """Counts what is looked at, and notes the count after each slice."""

    def __init__(self) -> None:
        self.done = 0
        self.after: list[int] = [0]

    def counting(self, wanted: Callable[[str], bool]) -> Callable[[str], bool]:
        def counted(name: str) -> bool:
            self.done += 1
            return wanted(name)

        return counted

    def walk(self, state: State, begin: Callable[[State], Walk[_T]]) -> _T:
        walk = StateWalk(begin)
        more = True
        while more:
            more = walk.slice(state)
            self.after.append(self.done)
        return walk.result

    @property
    def longest(self) -> int:
        """The most that was looked at in one slice."""
        return max(after - before for before, after in pairwise(self.after))


def everything(_: str) -> bool:
    return True


def new_state(*names: str, partitions: int = 1) -> State:
    state = State(LIMITS)
    for name in names:
        state.topics[name] = Topic(
            id=len(state.topics) + 1, name=name, partitions=partitions, options=TopicOptions(), limits=LIMITS
        )
    return state


def shuffled(count: int) -> list[str]:
    names = [f"topic-{number:06d}" for number in range(count)]
    Random(7).shuffle(names)
    return names


@pytest.mark.clause("O1")
@pytest.mark.parametrize("at_most", [None, 1, 100, TOPICS + 1])
def test_ten_thousand_topics_are_listed_in_slices(at_most: int | None) -> None:
    work = Work()
    shown = work.counting(everything)
    state = new_state(*shuffled(TOPICS), "~jobs")
    found = work.walk(state, lambda state: walk_topic_names(state, shown, at_most=at_most))
    assert found == [f"topic-{number:06d}" for number in range(TOPICS)][:at_most]
    assert work.done == TOPICS
    assert work.longest <= UNITS_MAX


def test_more_items_than_are_sorted_at_once_are_merged() -> None:
    names = shuffled(SORTED_AT_ONCE + 500)
    state, walk = State(LIMITS), StateWalk(lambda _: in_order(names, everything))
    slices = 1
    while walk.slice(state):
        slices += 1
    assert walk.result == sorted(names)
    assert slices >= 4 * len(names) // UNITS_MAX


@pytest.mark.clause("O1")
def test_the_dead_letter_topics_among_ten_thousand_are_counted_in_slices() -> None:
    work = Work()
    shown = work.counting(lambda name: name.startswith("dlq."))
    names = shuffled(TOPICS)
    state = new_state(*names, *(f"dlq.{name}" for name in names[:100]))
    found = work.walk(state, lambda state: walk_dlq_topics(state, shown=shown))
    assert [topic.name for topic, _ in found] == sorted(f"dlq.{name}" for name in names[:100])
    assert work.longest <= UNITS_MAX


class LookedAt(Partition):
    """A partition that counts how often its index is read."""

    __slots__ = ("_index", "work")

    def __init__(self, work: Work) -> None:
        self.work = work
        super().__init__()

    @property
    def index(self) -> Any:
        self.work.done += 1
        return self._index

    @index.setter
    def index(self, index: Any) -> None:
        self._index = index


@pytest.mark.clause("O1", "O4")
def test_the_dashboards_sums_over_ten_thousand_topics_are_made_in_slices() -> None:
    work = Work()
    state = new_state(*shuffled(TOPICS))
    for topic in state.topics.values():
        topic.partitions = [LookedAt(work), LookedAt(work)]
    totals = work.walk(
        state, lambda state: walk_totals(state, sees=work.counting(everything), streams_of=lambda _: ())
    )
    assert totals.topics == TOPICS
    assert work.longest <= 2 * UNITS_MAX


class CountedColumn(bytearray):
    """The states of jobs; counts the columns that are looked at."""

    work: Work

    def __getitem__(self, key: Any) -> Any:
        self.work.done += len(range(*key.indices(len(self)))) if isinstance(key, slice) else 1
        return super().__getitem__(key)


def add_jobs(state: State, *states: JobState, count: int = JOBS) -> Work:
    """Jobs of two queues, in turns, in these states; the first is older."""
    jobs = state.jobs
    for at in range(0, count, 10_000):
        terms = [
            JobTerms(
                offset=at + number,
                queue=("mail", "bulk")[number % 2],
                priority=5,
                run_at=0,
                max_retries=0,
                timeout_ms=0,
                fingerprint=0,
            )
            for number in range(10_000)
        ]
        fold_job(jobs, JobsEnqueued(at=NOW - count + at, jobs=terms))
    for number, found in enumerate(states):
        jobs.states[number] = found
    column = CountedColumn(jobs.states)
    column.work = Work()
    jobs.states = column
    return column.work


@pytest.mark.clause("O1")
def test_the_jobs_of_queues_are_counted_in_slices() -> None:
    state = State(LIMITS)
    work = add_jobs(state, JobState.DEAD, JobState.IN_FLIGHT, JobState.DEAD)
    found = work.walk(
        state,
        lambda state: walk_queues(state.jobs, now=NOW, wall=NOW, limit=10, after="", shown=everything),
    )
    assert [(one.queue, one.ready, one.dead, one.in_flight) for one in found.queues] == [
        ("bulk", JOBS // 2 - 1, 0, 1),
        ("mail", JOBS // 2 - 2, 2, 0),
    ]
    assert [one.oldest_age_ms for one in found.queues] == [JOBS, JOBS]
    assert work.longest <= 4 * UNITS_MAX


@pytest.mark.clause("O1")
@pytest.mark.parametrize("queue", [None, "mail"])
def test_a_list_of_jobs_looks_for_rare_ones_in_slices(queue: str | None) -> None:
    state = new_state(JOBS_TOPIC)
    work = add_jobs(state)
    state.jobs.states[JOBS - 2] = JobState.DEAD
    wanted = JobFilter(queue, "dead", NOW, NOW)
    page = work.walk(state, lambda state: walk_jobs(state, wanted, limit=10, start=0))
    assert [job.offset for job in page.jobs] == [JOBS - 2]
    assert not page.more
    assert work.longest <= 20 * UNITS_MAX  # A column in which nothing is found costs next to nothing.


@pytest.mark.clause("O1")
def test_a_tenants_list_of_jobs_has_those_of_its_queues_in_order() -> None:
    state = new_state(JOBS_TOPIC)
    add_jobs(state, count=10_000)
    wanted = JobFilter(None, None, NOW, NOW)
    walk = StateWalk(lambda state: walk_jobs(state, wanted, limit=120, start=5, shows=lambda q: q == "bulk"))
    slices = 1
    while walk.slice(state):
        slices += 1
    assert [job.offset for job in walk.result.jobs] == list(range(5, 245, 2))
    assert walk.result.more
    assert slices >= 2


def test_jobs_that_are_dropped_during_a_list_shift_nothing() -> None:
    state = new_state(JOBS_TOPIC)
    add_jobs(state, count=10_000)
    wanted = JobFilter(None, None, NOW, NOW)
    walk = StateWalk(lambda state: walk_jobs(state, wanted, limit=9_000, start=0))
    assert walk.slice(state)
    state.jobs.drop_below(40)
    while walk.slice(state):
        pass
    assert [job.offset for job in walk.result.jobs] == list(range(9_000))


@pytest.mark.clause("O4")
def test_the_dashboard_tells_ready_jobs_from_scheduled_ones_in_slices() -> None:
    state = State(LIMITS)
    work = add_jobs(state, count=10_000)
    state.jobs.due[3] = NOW + 5
    found = work.walk(state, lambda state: walk_jobs_by_state(state, now=NOW, wall=NOW))
    assert found == LiveJobs(ready=9_999, scheduled=1, blocked=0, in_flight=0, dead=0)
    assert work.longest <= 8 * UNITS_MAX


@pytest.mark.clause("O1")
def test_schedules_are_listed_in_slices() -> None:
    table = ScheduleTable()
    for name in shuffled(TOPICS):
        terms = ScheduleTerms(
            name=name,
            cron="0 0 1 1 *",
            timezone="UTC",
            queue="mail",
            task="send",
            payload="null",
            missed="skip",
            priority=5,
            max_retries=0,
            timeout_ms=0,
        )
        table.schedules[name] = Schedule(terms, created_at=0, next_at=NOW)
    work = Work()
    page = work.walk(
        State(LIMITS),
        lambda _: walk_schedules(table, limit=1_000, after="topic-000499", shown=work.counting(everything)),
    )
    assert [one.name for one in page.schedules] == [f"topic-{number:06d}" for number in range(500, 1_500)]
    assert page.after == "topic-001499"
    assert work.longest <= UNITS_MAX
    assert len(work.after) >= 10_000 // UNITS_MAX


def test_a_state_that_is_folded_once_more_is_walked_from_its_start() -> None:
    first, second = new_state(*shuffled(2_000)), new_state("kept")
    walk = StateWalk(lambda state: walk_topic_names(state, everything))
    assert walk.slice(first)
    while walk.slice(second):
        pass
    assert walk.result == ["kept"]


def test_a_topic_that_is_deleted_during_a_walk_is_left_out() -> None:
    state = new_state(*(f"dlq.{name}" for name in shuffled(2_000)))
    walk = StateWalk(lambda state: walk_dlq_topics(state, shown=everything))
    assert walk.slice(state)
    del state.topics["dlq.topic-001999"]
    while walk.slice(state):
        pass
    assert len(walk.result) == 1_999


def test_a_list_of_jobs_is_empty_where_none_was_ever_stored() -> None:
    walk = StateWalk(lambda state: walk_jobs(state, JobFilter(None, None, 0, 0), limit=1, start=0))
    assert not walk.slice(State(LIMITS))
    assert walk.result.jobs == []
