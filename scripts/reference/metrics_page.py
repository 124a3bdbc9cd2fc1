"""docs/reference/metrics.md: every metric with its type, labels and help, from the collectors."""

from collections.abc import Iterable

from prometheus_client.core import Metric

from driftq.http.system.families import FAMILIES
from scripts.reference.markdown import code, head, joined, table

INTRO = """\
All metrics are counters, gauges and histograms in the Prometheus text format. A counter's name ends
in `_total`; a histogram `h` has the samples `h_bucket`, `h_sum` and `h_count`. Counters and histograms begin
at 0 when the process starts. [Monitor a server](../how-to/monitor.md) shows how to use them."""
SERVER = """\
[`GET /v1/metrics`](http.md#get-v1metrics) of a server. The server computes these values when it is
asked for them, a few topics at a time, and answers other requests in between. A metric with labels has one
sample for each topic, group, queue, state or error."""
PIPELINE = """\
`driftq pipeline run … --metrics-port N` serves these on `127.0.0.1:N`, and each job also writes
them as a text file for collectors that read files. Each has one sample for each job."""


def pipeline_metrics() -> list[Metric]:
    from driftq.pipeline.runtime.metrics import JobCollector

    return list(JobCollector(lambda: ()).collect())


def exposed_name(metric: Metric) -> str:
    """As it is in the text format."""
    return f"{metric.name}_total" if metric.type == "counter" else str(metric.name)


def rows(metrics: Iterable[Metric]) -> list[tuple[str, str, str, str]]:
    return [
        (
            code(exposed_name(metric)),
            metric.type,
            ", ".join(map(code, getattr(metric, "_labelnames", ()))),
            metric.documentation,
        )
        for metric in metrics
    ]


def server_rows() -> list[tuple[str, str, str, str]]:
    return [
        (code(family.name), family.kind, ", ".join(map(code, family.labels)), family.meaning)
        for family in FAMILIES
    ]


def page() -> str:
    headers = ("Metric", "Type", "Labels", "Meaning")
    return joined(
        [
            *head("Metrics", "the families in src/driftq/http/system and src/driftq/pipeline/runtime"),
            INTRO,
            "## Server",
            SERVER,
            table(headers, server_rows()),
            "## Pipeline",
            PIPELINE,
            table(headers, rows(pipeline_metrics())),
        ]
    )
