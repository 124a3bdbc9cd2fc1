"""The metrics of schedules and of queues with flow control."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client.core import GaugeMetricFamily, Metric

from driftq.core.state import State


def flow_metrics(state: State) -> Iterator[Metric]:
    """Schedules by state, and for each queue with limits or a pause whether it is paused and what it runs."""
    schedules = GaugeMetricFamily("driftq_schedules", "Schedules.", labels=["state"])
    paused = sum(schedule.paused for schedule in state.schedules.schedules.values())
    schedules.add_metric(["active"], len(state.schedules.schedules) - paused)
    schedules.add_metric(["paused"], paused)
    yield schedules
    pauses = GaugeMetricFamily("driftq_queue_paused", "1 when the queue is paused.", labels=["queue"])
    leases = GaugeMetricFamily(
        "driftq_queue_leases",
        "Jobs under lease in queues with limits, pauses or limit keys.",
        labels=["queue"],
    )
    for name, flow in state.jobs.flow.queues.items():
        pauses.add_metric([name], int(flow.paused))
        leases.add_metric([name], flow.meter.in_flight)
    yield pauses
    yield leases
    yield GaugeMetricFamily(
        "driftq_jobs_blocked", "Jobs that wait for other jobs.", value=len(state.jobs.dependencies.unmet)
    )
