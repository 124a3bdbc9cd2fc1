"""The overview of the state: sums over topics and jobs, made in slices so that no request waits for it.

Each slice is a read of the engine, so every number is durable. The slices are read at slightly different
moments, which the sums do not show.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from itertools import islice

import msgspec

from driftq.core.group import GroupPartition
from driftq.core.jobs.table import JobState, JobTable
from driftq.core.state import State, Topic
from driftq.model import StreamView
from driftq.model.topic import DEAD_LETTER_PREFIX
from driftq.model.wire.ui import LiveDeadLetters, LiveJobs, LiveStream, LiveTopic, UnreadGroup
from driftq.server.dlq.pages import count_dead_letters
from driftq.server.topics.views import walk_topic_names
from driftq.server.walk import Walk

SHOWN_MAX = 20
_KEPT_MAX = 10 * SHOWN_MAX
"""Of a list that is cut to its first ones now and then, because few of many topics are shown."""
_WAITING_MAX = 10_000
_JOBS_TOGETHER = 250
_UNITS_A_TOPIC = 5
_COLUMNS_A_UNIT = 1_000
"""Counting the bytes of a column is quick."""

StreamsOf = Callable[[str], Sequence[StreamView]]


class Totals(msgspec.Struct):
    """Sums over the topics that a caller sees, and the few that need attention."""

    topics: int = 0
    groups: int = 0
    streams: int = 0
    messages: int = 0
    lag: int = 0
    in_flight: int = 0
    dead_letters: int = 0
    slowest: list[LiveTopic] = msgspec.field(default_factory=list)
    dead_letter_topics: list[LiveDeadLetters] = msgspec.field(default_factory=list)
    stalled: list[LiveStream] = msgspec.field(default_factory=list)
    unread: list[UnreadGroup] = msgspec.field(default_factory=list)

    def add(self, topic: Topic, streams: Sequence[StreamView]) -> None:
        if topic.name.startswith(DEAD_LETTER_PREFIX):
            waiting = open_dead_letters(topic)
            self.dead_letters += waiting
            if waiting:
                name = topic.name.removeprefix(DEAD_LETTER_PREFIX)
                self.dead_letter_topics.append(LiveDeadLetters(name, waiting))
        else:
            self.topics += 1
            self.messages += message_count(topic)
        self.groups += len(topic.groups)
        self.streams += len(streams)
        self.stalled += [LiveStream(topic.name, one.group, one.owner) for one in streams if one.stalled]
        reading = {stream.group for stream in streams}
        topic_lag = topic_in_flight = 0
        for group in topic.groups.values():
            lag, in_flight = group_load(group.partitions)
            topic_lag += lag
            topic_in_flight += in_flight
            if lag and group.name not in reading:
                self.unread.append(UnreadGroup(topic.name, group.name, lag))
        self.lag += topic_lag
        self.in_flight += topic_in_flight
        if topic_lag:
            self.slowest.append(LiveTopic(topic.name, topic_lag, topic_in_flight))
        for found in (self.slowest, self.unread, self.dead_letter_topics, self.stalled):
            if len(found) >= _KEPT_MAX:
                self.keep_first()
                break

    def keep_first(self) -> None:
        """Keep only the first of each list."""
        self.slowest = sorted(self.slowest, key=lambda one: -one.lag)[:SHOWN_MAX]
        self.unread = sorted(self.unread, key=lambda one: -one.lag)[:SHOWN_MAX]
        found = sorted(self.dead_letter_topics, key=lambda one: -one.messages)
        self.dead_letter_topics, self.stalled = found[:SHOWN_MAX], self.stalled[:SHOWN_MAX]


def walk_totals(state: State, *, sees: Callable[[str], bool], streams_of: StreamsOf) -> Walk[Totals]:
    """The sums over these topics; one that is deleted meanwhile is left out."""
    totals = Totals()
    for name in (yield from walk_topic_names(state, sees)):
        topic = state.topics.get(name)
        if topic is not None:
            totals.add(topic, streams_of(name))
            yield _UNITS_A_TOPIC + len(topic.partitions) * (1 + len(topic.groups))
    totals.keep_first()
    return totals


def message_count(topic: Topic) -> int:
    return sum(part.index.end - part.index.first for part in topic.partitions)


def open_dead_letters(topic: Topic) -> int:
    """Those of a dead-letter topic that were neither redriven nor purged."""
    return max(0, count_dead_letters(topic) - len(topic.redriven))


def group_load(partitions: Sequence[GroupPartition]) -> tuple[int, int]:
    """Unsettled messages, and how many of them are under lease."""
    return (
        sum(progress.unsettled for progress in partitions),
        sum(len(progress.leases) for progress in partitions),
    )


def walk_jobs_by_state(state: State, *, now: int, wall: int) -> Walk[LiveJobs]:
    """Jobs by state. Whether a job is ready depends on the time, so many waiting ones are not told apart."""
    jobs = state.jobs
    waiting = jobs.states.count(JobState.WAITING)
    if waiting > _WAITING_MAX:
        return _live_jobs(jobs, ready=waiting, scheduled=None)
    names: Counter[str | None] = Counter()
    start = jobs.base
    while some := list(islice(jobs.offsets(state=JobState.WAITING, start=start), _JOBS_TOGETHER)):
        names.update(jobs.state_name(one, now=now, wall=wall) for one in some)
        start = some[-1] + 1
        yield len(some) + len(jobs.states) // _COLUMNS_A_UNIT
    return _live_jobs(jobs, ready=names["ready"], scheduled=names["scheduled"])


def _live_jobs(jobs: JobTable, *, ready: int, scheduled: int | None) -> LiveJobs:
    return LiveJobs(
        ready=ready,
        scheduled=scheduled,
        blocked=len(jobs.dependencies.unmet),
        in_flight=len(jobs.grants),
        dead=jobs.states.count(JobState.DEAD),
    )
