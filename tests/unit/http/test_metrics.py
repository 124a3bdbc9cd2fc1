"""A scrape in slices: bounded work between two chances for others, and every metric with its help."""

from __future__ import annotations

import re
from array import array
from collections import Counter
from types import SimpleNamespace
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from driftq.core.jobs.records import JobsClaimed, JobsEnqueued, JobTerms
from driftq.core.jobs.table import JobState
from driftq.core.jobs.transitions import fold_job
from driftq.core.state import Partition, State, Topic
from driftq.http.system.families import FAMILIES
from driftq.http.system.metrics import UNITS_MAX, Scraping
from driftq.http.wire.edge import HttpOptions
from driftq.model import TopicOptions
from driftq.model.options.limits import Limits
from driftq.server.counters import Counters
from driftq.server.histograms import Histogram

LIMITS = Limits()
NOW = 1_000_000


def new_edge(counters: Counters | None = None) -> Any:
    """What a scrape reads of a server, with nothing behind it."""
    maintenance = SimpleNamespace(free_bytes=5 << 30, floor_bytes=256 << 20)
    return SimpleNamespace(
        counters=counters or Counters(),
        connections=(),
        streams=(),
        options=HttpOptions(version="9.9", commit="abc"),
        clock=SimpleNamespace(now=lambda: NOW, wall=lambda: NOW),
        broker=SimpleNamespace(pipelines=SimpleNamespace(views=list)),
        engine=SimpleNamespace(refusal=None, stages=SimpleNamespace(maintenance=maintenance)),
    )


def add_topic(state: State, name: str, *, partitions: int = 1) -> Topic:
    topic = Topic(
        id=len(state.topics) + 1, name=name, partitions=partitions, options=TopicOptions(), limits=LIMITS
    )
    state.topics[name] = topic
    return topic


def scraped(state: State, edge: Any | None = None, claims: dict[str, int] | None = None) -> dict[str, float]:
    """All samples by their text."""
    scraping = Scraping(edge or new_edge(), claims or {})
    while scraping.slice(state):
        pass
    return {
        _shown(sample): sample.value
        for family in text_string_to_metric_families(scraping.text().decode())
        for sample in family.samples
    }


def _shown(sample: Any) -> str:
    labels = ",".join(f"{name}={value}" for name, value in sorted(sample.labels.items()))
    return f"{sample.name}{{{labels}}}" if labels else str(sample.name)


class LookedAt(Partition):
    """A partition that counts how often its index is read."""

    __slots__ = ("_index",)
    looks = 0

    @property
    def index(self) -> Any:
        LookedAt.looks += 1
        return self._index

    @index.setter
    def index(self, index: Any) -> None:
        self._index = index


@pytest.mark.clause("O1")
def test_ten_thousand_topics_are_scraped_in_slices_of_bounded_work() -> None:
    """Counted: partitions read and lines written between two slices. The longest slice has a bound."""
    state = State(LIMITS)
    for number in range(10_000):
        add_topic(state, f"topic-{number}").partitions = [LookedAt()]
    wide = add_topic(state, "wide")
    wide.partitions = [LookedAt() for _ in range(5_000)]
    scraping = Scraping(new_edge(), {})
    longest = slices = lines_before = 0
    more = True
    while more:
        LookedAt.looks = 0
        more = scraping.slice(state)
        lines = scraping.text().count(b"\n")
        longest = max(longest, LookedAt.looks + lines - lines_before)
        lines_before, slices = lines, slices + 1
    assert slices > 10_000 * 4 // UNITS_MAX
    assert longest <= 2 * UNITS_MAX
    samples = re.findall(rb"^driftq_topic_messages\{", scraping.text(), re.MULTILINE)
    assert len(samples) == 10_001


@pytest.mark.clause("O1")
def test_a_million_jobs_are_counted_in_slices() -> None:
    state = State(LIMITS)
    state.jobs.queue("mail")
    state.jobs.states = bytearray([JobState.SUCCEEDED]) * 1_000_000
    state.jobs.queue_numbers = array("I", [0]) * 1_000_000
    scraping = Scraping(new_edge(), {})
    slices = 1
    while scraping.slice(state):
        slices += 1
    assert slices >= 100
    assert b'driftq_jobs{queue="mail",state="succeeded"} 1000000.0' in scraping.text()


@pytest.mark.clause("O1")
def test_a_state_that_is_folded_once_more_during_a_scrape_is_scraped_from_its_start() -> None:
    first, second = State(LIMITS), State(LIMITS)
    for number in range(2_000):
        add_topic(first, f"lost-{number}")
    add_topic(second, "kept")
    scraping = Scraping(new_edge(), {})
    assert scraping.slice(first)
    while scraping.slice(second):
        pass
    names = re.findall(rb'^driftq_topic_messages\{topic="(.*)"\}', scraping.text(), re.MULTILINE)
    assert names == [b"kept"]


@pytest.mark.clause("O1")
def test_every_family_has_help_and_type_and_a_name_by_prometheus_rules() -> None:
    scraping = Scraping(new_edge(), {"unknown": 2})
    while scraping.slice(State(LIMITS)):
        pass
    text = scraping.text().decode()
    assert re.findall(r"^# TYPE (\S+) (\S+)$", text, re.MULTILINE) == [
        (family.name, family.kind) for family in FAMILIES
    ]
    for family in FAMILIES:
        assert family.meaning.endswith("."), family
        assert (family.kind == "counter") == family.name.endswith("_total"), family
        assert not re.search(r"_(ms|millis|kb|mb|count|sum|bucket)$", family.name), family
    assert Counter(family.name for family in FAMILIES).most_common(1)[0][1] == 1


@pytest.mark.clause("O1")
def test_every_counter_of_the_server_is_exported() -> None:
    counters = Counters()
    plain = [name for name in counters.__dataclass_fields__ if name not in ("refusals", "histograms")]
    for number, name in enumerate(plain, start=1):
        setattr(counters, name, number)
    counters.refusals["CONFLICT", "TopicExists"] = 3
    samples = scraped(State(LIMITS), new_edge(counters))
    for number, name in enumerate(plain, start=1):
        assert samples[f"driftq_{name}_total"] == number
    assert samples["driftq_refusals_total{code=CONFLICT,kind=TopicExists}"] == 3
    for name in counters.histograms.__dataclass_fields__:
        assert samples[f"driftq_{name}_count"] == 0


@pytest.mark.clause("O1")
def test_jobs_are_counted_by_queue_and_state_and_the_oldest_has_an_age() -> None:
    state = State(LIMITS)
    due = [JobTerms(offset, "mail", 5, NOW - 9_000, 3, 0, 0) for offset in (0, 1)]
    later = [
        JobTerms(2 + number, queue, 5, NOW + 60_000, 3, 0, 0, True)
        for number, queue in enumerate(("mail", "pdf"))
    ]
    fold_job(state.jobs, JobsEnqueued(at=NOW - 9_000, jobs=due))
    fold_job(state.jobs, JobsEnqueued(at=NOW - 7_000, jobs=later))
    fold_job(state.jobs, JobsClaimed(at=NOW, owner="w", lease_ms=1_000, first_token=1, offsets=[1]))
    samples = scraped(state)
    assert samples["driftq_jobs{queue=mail,state=ready}"] == 1
    assert samples["driftq_jobs{queue=mail,state=scheduled}"] == 1
    assert samples["driftq_jobs{queue=mail,state=in_flight}"] == 1
    assert samples["driftq_jobs{queue=mail,state=dead}"] == 0
    assert samples["driftq_queue_oldest_age_seconds{queue=mail}"] == 9
    assert samples["driftq_queue_oldest_age_seconds{queue=pdf}"] == 0


def test_a_label_with_quotes_and_backslashes_is_escaped() -> None:
    state = State(LIMITS)
    add_topic(state, 'a"b\\c')
    assert scraped(state)['driftq_topic_messages{topic=a"b\\c}'] == 0


def test_the_claims_of_the_registry_are_samples_by_state() -> None:
    samples = scraped(State(LIMITS), claims={"unknown": 2, "dead": 1})
    assert samples["driftq_registry_claims{state=unknown}"] == 2
    assert samples["driftq_registry_claims{state=dead}"] == 1


def test_a_histogram_counts_a_bound_in_its_own_bucket_and_the_rest_above() -> None:
    histogram = Histogram((1.0, 2.0))
    histogram.observe(1.0)
    histogram.observe(1.5, times=3)
    histogram.observe(9.0)
    assert (histogram.counts, histogram.sum) == ([1, 3, 1], 14.5)
