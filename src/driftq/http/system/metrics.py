"""The server's metrics for Prometheus, read from counters and state at each scrape."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from driftq.core.state import State
from driftq.http.system.flow_metrics import flow_metrics

if TYPE_CHECKING:
    from driftq.http.wire.edge import Edge

_COUNTERS = {
    "produced": "Messages stored.",
    "produce_refused": "Messages refused.",
    "duplicates": "Messages that were stored already, by their idempotency key.",
    "payload_mismatches": "Duplicates whose payload differed from the first.",
    "delivered": "Deliveries.",
    "redelivered": "Deliveries that were not a message's first.",
    "acked": "Messages settled by an ack.",
    "nacked": "Deliveries returned by a nack.",
    "expired": "Deliveries whose lease expired.",
    "stalls": "Streams held back because their owner let leases expire without any request.",
    "schedule_fires": "Jobs enqueued by schedules.",
    "schedule_fires_skipped": "Missed fires that the policy of their schedule passed over.",
    "commits": "Writes to the log.",
    "commit_failures": "Writes to the log that failed.",
    "committed_bytes": "Bytes written to the log.",
    "router_failures": "Messages that went on unrouted because the router failed.",
    "trimmed": "Messages dropped because their retention had expired.",
    "dropped_unsettled": "Messages dropped unsettled because their topic was over its retention_bytes.",
    "rounds": "Rounds of housekeeping.",
    "round_failures": "Rounds of housekeeping that failed.",
    "requests": "HTTP requests.",
    "unauthenticated": "Requests without a valid API key.",
    "permission_denied": "Requests whose key lacks the role or the topic.",
    "key_rate_refused": "Requests over the rates of their key.",
    "connections": "HTTP connections accepted.",
    "streams": "Consume streams opened.",
}


def new_registry(edge: Edge, state: State) -> CollectorRegistry:
    """A registry for one scrape, so that nothing is kept between scrapes."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(ServerCollector(edge, state))
    return registry


class ServerCollector(Collector):
    """The counters, and the state of each topic and group."""

    def __init__(self, edge: Edge, state: State) -> None:
        self._edge = edge
        self._state = state

    def collect(self) -> Iterator[Metric]:
        for name, number in asdict(self._edge.counters).items():
            if name in _COUNTERS:
                yield CounterMetricFamily(f"driftq_{name}", _COUNTERS[name], value=number)
        edge = self._edge
        yield GaugeMetricFamily("driftq_open_connections", "HTTP connections.", value=len(edge.connections))
        yield GaugeMetricFamily("driftq_open_streams", "Consume streams.", value=len(edge.streams))
        ready = 0 if edge.engine.refusal else 1
        yield GaugeMetricFamily("driftq_ready", "1 when the server accepts work.", value=ready)
        yield from flow_metrics(self._state)
        yield from self._topics()
        yield from self._groups()

    def _topics(self) -> Iterator[Metric]:
        messages = GaugeMetricFamily("driftq_topic_messages", "Messages kept.", labels=["topic"])
        size = GaugeMetricFamily("driftq_topic_bytes", "Bytes of their keys and values.", labels=["topic"])
        for name, topic in self._state.topics.items():
            indexes = [partition.index for partition in topic.partitions]
            messages.add_metric([name], sum(index.end - index.first for index in indexes))
            size.add_metric([name], sum(index.total_bytes - index.bytes_before for index in indexes))
        yield messages
        yield size

    def _groups(self) -> Iterator[Metric]:
        labels = ["topic", "group"]
        lag = GaugeMetricFamily("driftq_group_lag", "Messages that a group has not settled.", labels=labels)
        in_flight = GaugeMetricFamily("driftq_group_in_flight", "Deliveries under lease.", labels=labels)
        for name, topic in self._state.topics.items():
            for group in topic.groups.values():
                lag.add_metric([name, group.name], sum(one.unsettled for one in group.partitions))
                in_flight.add_metric([name, group.name], sum(len(one.leases) for one in group.partitions))
        yield lag
        yield in_flight
