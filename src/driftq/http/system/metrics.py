"""A scrape of the server's metrics, made in slices so that it holds up nobody.

The hot path only adds to plain numbers; text is made when Prometheus asks for it. A server may have ten
thousand topics and a million jobs, so a scrape is cut into slices of bounded work. Each slice is a read of
the engine: it sees durable state, and requests are decided between two slices. A scrape is therefore no
snapshot: each sample is right at its own moment.

Work is counted in units of about a microsecond: a partition that is looked at, or a line that is written.
"""

from __future__ import annotations

import platform
from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import TYPE_CHECKING, Any

from driftq.core.group import Group
from driftq.core.jobs.table import JobState, JobTable
from driftq.core.state import State, Topic
from driftq.http.reads import in_slices
from driftq.http.system import families
from driftq.http.system.families import MetricFamily
from driftq.http.system.process import process_numbers
from driftq.model.topic import DEAD_LETTER_PREFIX
from driftq.model.wire.pipelines import OUTBOX_KIND
from driftq.server.effects.open_steps import LOOKED_AT_MAX, count_unknown
from driftq.server.histograms import Histogram
from driftq.server.jobs.queue_views import STATE_BITS

if TYPE_CHECKING:
    from driftq.http.wire.edge import Edge

UNITS_MAX = 500
"""Work of one slice."""
_PARTITIONS = 200
"""Partitions that are looked at in one step."""
_JOBS = 2_000
"""Jobs that are counted in one step; ten of them are a unit."""
_JOBS_A_UNIT = 10
_SCHEDULED = 0
"""A waiting job that is not due: the table has no state of its own for it."""
_STATE_NAMES = {
    _SCHEDULED: "scheduled",
    JobState.WAITING: "ready",
    JobState.IN_FLIGHT: "in_flight",
    JobState.SUCCEEDED: "succeeded",
    JobState.DEAD: "dead",
    JobState.BLOCKED: "blocked",
}


async def scrape(edge: Edge) -> list[bytes]:
    """The text for Prometheus, in parts. Raises what the engine refuses reads with."""
    claims = await edge.registry_claims.count() if edge.registry_claims is not None else {}
    scraping = Scraping(edge, claims)
    await in_slices(edge, scraping.slice)
    return scraping.parts()


class Scraping:
    """The lines of one scrape by family, as far as they are made."""

    def __init__(self, edge: Edge, claims: Mapping[str, int], *, units_max: int = UNITS_MAX) -> None:
        self._edge = edge
        self._claims = claims
        self._units_max = units_max
        self._state: State | None = None
        self._steps: Iterator[int] = iter(())
        self._lines: dict[str, list[str]] = {}
        self._made: dict[str, list[bytes]] = {}

    def slice(self, state: State) -> bool:
        """Do some of the work; False when it is done."""
        if state is not self._state:  # At the beginning, or the state was folded once more.
            self._state = state
            self._lines = {family.name: [] for family in families.FAMILIES}
            self._made = {family.name: [] for family in families.FAMILIES}
            self._steps = self._all(state)
        units = 0
        for step in self._steps:
            units += step
            if units >= self._units_max:
                self._encode()
                return True
        self._encode()
        return False

    def text(self) -> bytes:
        """Everything."""
        return b"".join(self.parts())

    def parts(self) -> list[bytes]:
        """Everything; a family without samples has its head alone."""
        parts: list[bytes] = []
        for family in families.FAMILIES:
            parts.append(family.head.encode())
            parts += self._made[family.name]
        return parts

    def _encode(self) -> None:
        for name, lines in self._lines.items():
            if lines:
                self._made[name].append("".join(lines).encode())
                lines.clear()

    def _add(self, family: MetricFamily, value: float, *labels: str) -> None:
        named = ",".join(
            f'{name}="{_escaped(label)}"' for name, label in zip(family.labels, labels, strict=True)
        )
        self._put(family, f"{{{named}}}" if named else "", value)

    def _put(self, family: MetricFamily, labels: str, value: float) -> None:
        """With the text of its labels, which many samples of a topic or queue share."""
        self._lines[family.name].append(f"{family.name}{labels} {float(value)}\n")

    # The steps; each yields the units of work that it took

    def _all(self, state: State) -> Iterator[int]:
        yield self._server()
        yield self._effects(state)
        yield from self._flow(state)
        yield from self._topics(state)
        yield from self._jobs(state.jobs)

    def _server(self) -> int:
        edge = self._edge
        counters = edge.counters
        for field, family in families.COUNTERS.items():
            self._add(family, getattr(counters, field))
        for (code, kind), count in sorted(counters.refusals.items()):
            self._add(families.REFUSALS, count, code, kind)
        for field, family in families.HISTOGRAMS.items():
            self._histogram(family, getattr(counters.histograms, field))
        options = edge.options
        self._add(families.BUILD, 1, options.version, options.commit, platform.python_version())
        self._add(families.OPEN_CONNECTIONS, len(edge.connections))
        self._add(families.OPEN_STREAMS, len(edge.streams))
        self._add(families.READY, 0 if edge.engine.refusal else 1)
        maintenance = edge.engine.stages.maintenance
        if maintenance.free_bytes is not None:
            self._add(families.DISK_FREE, maintenance.free_bytes)
        self._add(families.DISK_FLOOR, maintenance.floor_bytes)
        for state, count in sorted(self._claims.items()):
            self._add(families.REGISTRY_CLAIMS, count, state)
        for report in edge.broker.pipelines.views():
            if report.kind == OUTBOX_KIND:
                self._add(families.OUTBOX_WAITING, report.lag or 0, report.name)
                self._add(families.OUTBOX_PARKED, report.dead_letters or 0, report.name)
        numbers = process_numbers()
        for family in families.PROCESS:
            if family.name in numbers:
                self._add(family, numbers[family.name])
        return sum(map(len, self._lines.values()))

    def _effects(self, state: State) -> int:
        self._add(families.EFFECTS_OPEN, len(state.effects.pending))
        unknown = count_unknown(state.effects, now=self._edge.clock.now())
        self._add(families.STEPS_UNKNOWN, unknown)
        return 2 + min(len(state.effects.pending), LOOKED_AT_MAX) // 5

    def _flow(self, state: State) -> Iterator[int]:
        schedules = state.schedules.schedules
        paused = sum(schedule.paused for schedule in schedules.values())
        self._add(families.SCHEDULES, len(schedules) - paused, "active")
        self._add(families.SCHEDULES, paused, "paused")
        self._add(families.JOBS_BLOCKED, len(state.jobs.dependencies.unmet))
        yield 3 + len(schedules) // 100
        for name, flow in list(state.jobs.flow.queues.items()):
            self._add(families.QUEUE_PAUSED, int(flow.paused), name)
            self._add(families.QUEUE_LEASES, flow.meter.in_flight, name)
            yield 2

    def _histogram(self, family: MetricFamily, histogram: Histogram) -> None:
        lines = self._lines[family.name]
        total = 0
        for bound, count in zip((*histogram.bounds, None), histogram.counts, strict=True):
            total += count
            le = "+Inf" if bound is None else f"{bound:g}"
            lines.append(f'{family.name}_bucket{{le="{le}"}} {float(total)}\n')
        lines.append(f"{family.name}_sum {histogram.sum}\n{family.name}_count {float(total)}\n")

    def _topics(self, state: State) -> Iterator[int]:
        for topic in list(state.topics.values()):
            yield from self._topic(topic)
            for group in list(topic.groups.values()):
                yield from self._group(topic.name, group)

    def _topic(self, topic: Topic) -> Iterator[int]:
        messages = size = delayed = 0
        for some in _chunks(topic.partitions):
            for partition in some:
                index = partition.index
                delayed += index.specials.delays.count
                messages += index.end - index.first
                size += index.total_bytes - index.bytes_before
            yield len(some)
        labels = f'{{topic="{_escaped(topic.name)}"}}'
        self._put(families.TOPIC_MESSAGES, labels, messages)
        self._put(families.TOPIC_PRODUCED, labels, topic.next_offset - topic.start_offset)
        self._put(families.TOPIC_BYTES, labels, size)
        self._put(families.TOPIC_DELAYED, labels, delayed)
        if topic.name.startswith(DEAD_LETTER_PREFIX):
            origin = topic.name.removeprefix(DEAD_LETTER_PREFIX)
            self._add(families.DEAD_LETTERS, messages - len(topic.purged), origin)
        yield 4

    def _group(self, topic: str, group: Group) -> Iterator[int]:
        lag = in_flight = 0
        for some in _chunks(group.partitions):
            for progress in some:
                lag += progress.unsettled
                in_flight += len(progress.leases)
            yield len(some)
        labels = f'{{group="{_escaped(group.name)}",topic="{_escaped(topic)}"}}'
        self._put(families.GROUP_LAG, labels, lag)
        self._put(families.GROUP_IN_FLIGHT, labels, in_flight)
        yield 2

    def _jobs(self, jobs: JobTable) -> Iterator[int]:
        counted: Counter[int] = Counter()
        offset = jobs.base
        while offset < jobs.base + len(jobs.states):
            start = max(0, offset - jobs.base)  # Jobs may have been dropped since the last step.
            counted.update(self._some_jobs(jobs, start, start + _JOBS))
            offset = jobs.base + start + _JOBS
            yield _JOBS // _JOBS_A_UNIT
        clock = self._edge.clock
        for queue in list(jobs.queues.values()):
            label = f'queue="{_escaped(queue.name)}"'
            for state, name in _STATE_NAMES.items():
                count = counted[queue.number << STATE_BITS | state]
                self._put(families.JOBS, f'{{{label},state="{name}"}}', count)
            now, wall = clock.now(), clock.wall()
            due = jobs.next_due(queue.name, lead_ms=now - wall)
            self._add(families.OLDEST_AGE, 0 if due is None else max(0, now - due) / 1000, queue.name)
            yield 10 + len(_STATE_NAMES)

    def _some_jobs(self, jobs: JobTable, start: int, stop: int) -> list[int]:
        """Queue number and state of these columns, as one integer."""
        states, numbers = jobs.states[start:stop], jobs.queue_numbers[start:stop]
        now, wall = self._edge.clock.now(), self._edge.clock.wall()
        due, by_wall = jobs.due[start:stop], jobs.by_wall[start:stop]
        if JobState.WAITING not in states or max(due) <= min(now, wall):  # None is scheduled.
            rows = zip(numbers, states, strict=True)
            return [number << STATE_BITS | state for number, state in rows if state]
        return [
            number << STATE_BITS
            | (_SCHEDULED if state == JobState.WAITING and at > (wall if walls else now) else state)
            for number, state, at, walls in zip(numbers, states, due, by_wall, strict=True)
            if state
        ]


def _chunks(parts: list[Any]) -> Iterator[list[Any]]:
    """Few partitions at a time; most topics have few in all."""
    if len(parts) <= _PARTITIONS:
        yield parts
        return
    rest = iter(parts)
    while some := list(islice(rest, _PARTITIONS)):
        yield some


def _escaped(label: str) -> str:
    """As the text format wants it; nearly no label needs it."""
    if "\\" in label or '"' in label or "\n" in label:
        return label.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return label
