"""The overview of the state: sums over topics, made in parts so that no turn of the engine waits for it.

A part covers a bounded number of topics and is one read of the engine, so every number is durable. The parts
are read at slightly different moments, which the sums do not show.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from driftq.core.group import GroupPartition
from driftq.core.jobs.table import JobState
from driftq.core.state import State, Topic
from driftq.model import StreamView
from driftq.model.topic import DEAD_LETTER_PREFIX
from driftq.model.wire.ui import LiveDeadLetters, LiveJobs, LiveStream, LiveTopic, UnreadGroup
from driftq.server.dlq.pages import count_dead_letters
from driftq.server.topics.views import topic_names

PART_TOPICS = 100
PART_WORK = 1_000
"""Partitions of topics and groups in one part."""
SHOWN_MAX = 20
_WAITING_MAX = 10_000

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

    def finish(self) -> None:
        """Keep only the first of each list."""
        self.slowest = sorted(self.slowest, key=lambda one: -one.lag)[:SHOWN_MAX]
        self.unread = sorted(self.unread, key=lambda one: -one.lag)[:SHOWN_MAX]
        found = sorted(self.dead_letter_topics, key=lambda one: -one.messages)
        self.dead_letter_topics, self.stalled = found[:SHOWN_MAX], self.stalled[:SHOWN_MAX]


def parts_of(state: State) -> list[list[str]]:
    """The names of all topics, cut into parts that are quickly read."""
    parts: list[list[str]] = []
    work = PART_WORK
    for name in topic_names(state):
        topic = state.topics[name]
        cost = len(topic.partitions) * (1 + len(topic.groups))
        if work + cost > PART_WORK or len(parts[-1]) >= PART_TOPICS:
            parts.append([])
            work = 0
        parts[-1].append(name)
        work += cost
    return parts


def add_part(totals: Totals, state: State, *, names: Sequence[str], streams_of: StreamsOf) -> None:
    """Add these topics; one that was deleted meanwhile is left out."""
    for name in names:
        topic = state.topics.get(name)
        if topic is not None:
            totals.add(topic, streams_of(name))


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


def count_jobs(state: State, *, now: int, wall: int) -> LiveJobs:
    """Jobs by state. Whether a job is ready depends on the time, so many waiting ones are not told apart."""
    jobs = state.jobs
    waiting = jobs.states.count(JobState.WAITING)
    scheduled: int | None = None
    if waiting <= _WAITING_MAX:
        scheduled = sum(
            jobs.state_name(offset, now=now, wall=wall) == "scheduled"
            for offset in jobs.offsets(state=JobState.WAITING)
        )
    return LiveJobs(
        ready=waiting - (scheduled or 0),
        scheduled=scheduled,
        blocked=len(jobs.dependencies.unmet),
        in_flight=len(jobs.grants),
        dead=jobs.states.count(JobState.DEAD),
    )
