"""What `driftq top` shows: two scrapes of a server's metrics, compared and laid out as tables."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from driftq.cli.screen import table

if TYPE_CHECKING:
    from rich.console import Group
    from rich.table import Table

ROWS = 15
_NO_RATE = "–"
_INTERNAL = "~"

Labels = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Scrape:
    """The samples of one scrape, each by its name and the values of its labels, sorted by label."""

    at: float
    """By a clock for differences."""
    samples: dict[str, dict[Labels, float]] = field(default_factory=dict)
    labels: dict[str, str] = field(default_factory=dict)
    """Of the build."""

    def one(self, name: str) -> float:
        """A sample without labels; 0 where the server has none."""
        return self.samples.get(name, {}).get((), 0.0)

    def by_label(self, name: str) -> dict[Labels, float]:
        return self.samples.get(name, {})


def read_scrape(text: str, *, at: float) -> Scrape:
    """Parse the text of `/v1/metrics`."""
    from prometheus_client.parser import text_string_to_metric_families

    scrape = Scrape(at)
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            if sample.name == "driftq_build_info":
                scrape.labels.update(sample.labels)
            values = tuple(value for _, value in sorted(sample.labels.items()))
            scrape.samples.setdefault(sample.name, {})[values] = sample.value
    return scrape


def view(scrape: Scrape, before: Scrape | None, *, rows: int = ROWS) -> Group:
    """The whole picture; without an earlier scrape there are no rates."""
    from rich.console import Group

    shown = [_server(scrape, before), _topics(scrape, before, rows)]
    shown += [
        made for made in (_groups(scrape, rows), _queues(scrape, rows), _claims(scrape)) if made.row_count
    ]
    return Group(*shown)


def _server(scrape: Scrape, before: Scrape | None) -> Table:
    state = "ready" if scrape.one("driftq_ready") else "not ready"
    columns = (
        *("produced/s", "delivered/s", "acked/s", "redelivered/s", "refused/s", "commits/s"),
        *("messages a commit", "commit ms", "dead letters", "streams"),
    )
    made = table(
        f"DriftQ {scrape.labels.get('version', '')}, {state}",
        *columns,
        right=frozenset(columns),
    )
    counters = ("produced", "delivered", "acked", "redelivered", "refusals", "commits")
    rates = [_rate(f"driftq_{name}_total", scrape, before) for name in counters]
    made.add_row(
        *rates,
        _mean("driftq_commit_messages", scrape, before, scale=1),
        _mean("driftq_commit_seconds", scrape, before, scale=1_000),
        _number(sum(scrape.by_label("driftq_dead_letters").values())),
        _number(scrape.one("driftq_open_streams")),
    )
    return made


def _topics(scrape: Scrape, before: Scrape | None, rows: int) -> Table:
    lag = _sums(scrape.by_label("driftq_group_lag"))
    in_flight = _sums(scrape.by_label("driftq_group_in_flight"))
    dead = scrape.by_label("driftq_dead_letters")
    produced = scrape.by_label("driftq_topic_produced_total")
    was = before.by_label("driftq_topic_produced_total") if before is not None else {}
    names = [name for (name,) in produced if not name.startswith(_INTERNAL)]

    def grown(name: str) -> float:
        return produced[name,] - was.get((name,), produced[name,])

    names.sort(key=lambda name: (-grown(name), -lag.get(name, 0), name))
    columns = ("messages", "produced/s", "lag", "in flight", "dead letters", "size")
    made = table(_title("topics", len(names), rows), "topic", *columns, right=frozenset(columns))
    for name in names[:rows]:
        elapsed = scrape.at - before.at if before is not None else 0
        made.add_row(
            name,
            _number(scrape.by_label("driftq_topic_messages").get((name,), 0)),
            _number(grown(name) / elapsed) if elapsed > 0 else _NO_RATE,
            _number(lag.get(name, 0)),
            _number(in_flight.get(name, 0)),
            _number(dead.get((name,), 0)),
            _size(scrape.by_label("driftq_topic_bytes").get((name,), 0)),
        )
    return made


def _groups(scrape: Scrape, rows: int) -> Table:
    lags = scrape.by_label("driftq_group_lag")
    columns = ("lag", "in flight")
    made = table(_title("groups", len(lags), rows), "group", "topic", *columns, right=frozenset(columns))
    for (group, topic), lag in sorted(lags.items(), key=lambda item: (-item[1], item[0]))[:rows]:
        in_flight = scrape.by_label("driftq_group_in_flight").get((group, topic), 0)
        made.add_row(group, topic, _number(lag), _number(in_flight))
    return made


def _queues(scrape: Scrape, rows: int) -> Table:
    jobs = scrape.by_label("driftq_jobs")
    ages = scrape.by_label("driftq_queue_oldest_age_seconds")
    states = ("ready", "scheduled", "in_flight", "dead")
    columns = ("ready", "scheduled", "in flight", "dead", "oldest")
    made = table(_title("queues", len(ages), rows), "queue", *columns, right=frozenset(columns))
    for (queue,), age in sorted(ages.items(), key=lambda item: (-item[1], item[0]))[:rows]:
        made.add_row(queue, *(_number(jobs.get((queue, state), 0)) for state in states), _span(age))
    return made


def _claims(scrape: Scrape) -> Table:
    claims = scrape.by_label("driftq_registry_claims")
    states = sorted(state for (state,) in claims)
    made = table("claims in the registry", *states, right=frozenset(states))
    if claims:
        made.add_row(*(_number(claims[state,]) for state in states))
    return made


def _sums(samples: dict[Labels, float]) -> dict[str, float]:
    """Of groups, by topic."""
    found: dict[str, float] = {}
    for (_, topic), value in samples.items():
        found[topic] = found.get(topic, 0) + value
    return found


def _rate(name: str, scrape: Scrape, before: Scrape | None) -> str:
    """A second, over all labels."""
    if before is None or scrape.at <= before.at:
        return _NO_RATE
    grown = sum(scrape.by_label(name).values()) - sum(before.by_label(name).values())
    return _number(max(0.0, grown) / (scrape.at - before.at))


def _mean(histogram: str, scrape: Scrape, before: Scrape | None, *, scale: float) -> str:
    """Since the scrape before, else since the server started."""
    count = scrape.one(f"{histogram}_count") - (before.one(f"{histogram}_count") if before is not None else 0)
    total = scrape.one(f"{histogram}_sum") - (before.one(f"{histogram}_sum") if before is not None else 0)
    return f"{total / count * scale:.1f}" if count > 0 else _NO_RATE


def _title(what: str, count: int, rows: int) -> str:
    return what if count <= rows else f"{what} ({rows} of {count})"


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 10 or value == int(value) else f"{value:.1f}"


def _size(size_bytes: float) -> str:
    for unit in ("B", "KiB", "MiB", "GiB"):
        if size_bytes < 1024:
            return f"{size_bytes:,.0f} {unit}" if unit == "B" else f"{size_bytes:,.1f} {unit}"
        size_bytes /= 1024
    return f"{size_bytes:,.1f} TiB"


def _span(seconds: float) -> str:
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes = int(seconds // 60)
    return f"{minutes} min" if minutes < 120 else f"{minutes // 60} h"
