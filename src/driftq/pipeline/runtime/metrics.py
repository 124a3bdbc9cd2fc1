"""The jobs' metrics for Prometheus: a text file for each job, or a port."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from prometheus_client import CollectorRegistry, generate_latest, start_http_server
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from driftq.pipeline.runtime.status import JobStatus, PipelineJobState, StatusFolder

_LABELS = ("job",)


class JobCollector(Collector):
    """Reads the status of all jobs at each scrape."""

    def __init__(self, jobs: Callable[[], Sequence[JobStatus]]) -> None:
        self._jobs = jobs

    def collect(self) -> Iterator[Metric]:
        jobs = self._jobs()
        yield _counter("rows", "Rows over all runs.", ((job, job.rows) for job in jobs))
        yield _counter(
            "restarts", "Queries started again by this driver.", ((job, job.restarts) for job in jobs)
        )
        yield _counter(
            "dead_letters",
            "Events given up as dead letters, over all runs.",
            ((job, job.dead_letters) for job in jobs),
        )
        yield _counter(
            "outages",
            "Times that a target was away and was waited for.",
            ((job, job.outages) for job in jobs),
        )
        yield _gauge(
            "last_batch", "The last batch that is finished.", ((job, job.last_batch) for job in jobs)
        )
        yield _gauge("batch_rows", "Rows in it.", ((job, job.batch_rows) for job in jobs))
        yield _gauge("rows_per_second", "How fast it went.", ((job, job.rows_per_second) for job in jobs))
        yield _gauge("lag", "Rows that were there and not read yet.", ((job, job.lag) for job in jobs))
        running = ((job, job.state is PipelineJobState.RUNNING) for job in jobs)
        yield _gauge("running", "1 while the job's query runs.", running)


def as_text(jobs: Sequence[JobStatus]) -> bytes:
    """For a collector of text files, such as node_exporter's."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(JobCollector(lambda: jobs))
    return generate_latest(registry)


def serve_metrics(folder: StatusFolder, port: int) -> tuple[int, Callable[[], None]]:
    """Serve on this machine, on that port or a free one for 0; returns the port, and a function to stop."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(JobCollector(folder.all))
    server, thread = start_http_server(port, addr="127.0.0.1", registry=registry)

    def end() -> None:
        server.shutdown()
        server.server_close()
        thread.join(1.0)

    return server.server_port, end


def _counter(name: str, meaning: str, values: Iterable[tuple[JobStatus, int]]) -> Metric:
    family = CounterMetricFamily(f"driftq_pipeline_{name}", meaning, labels=_LABELS)
    for job, value in values:
        family.add_metric([job.job], value)
    return family


def _gauge(name: str, meaning: str, values: Iterable[tuple[JobStatus, float | None]]) -> Metric:
    family = GaugeMetricFamily(f"driftq_pipeline_{name}", meaning, labels=_LABELS)
    for job, value in values:
        if value is not None:
            family.add_metric([job.job], value)
    return family
