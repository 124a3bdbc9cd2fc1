"""docs/reference/metrics.md: every metric with its type, labels and help, from the collectors."""

from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any

from prometheus_client.core import Metric

from scripts.reference.markdown import code, head, joined, table

INTRO = """\
All metrics are counters and gauges in the Prometheus text format. A counter's name ends in
`_total`. Counters begin at 0 when the process starts."""
SERVER = """\
[`GET /v1/metrics`](http.md#get-v1metrics) of a server. The server computes these values when it is
asked for them; the metrics of topics and groups have one sample for each topic or group."""
PIPELINE = """\
`driftq pipeline run … --metrics-port N` serves these on `127.0.0.1:N`, and each job also writes
them as a text file for collectors that read files. Each has one sample for each job."""


def server_metrics() -> list[Metric]:
    """What a server without topics exposes: the families are the same as with them."""
    from driftq.core.state import State
    from driftq.http.system.metrics import ServerCollector
    from driftq.model.options.limits import Limits
    from driftq.server.counters import Counters

    idle: Any = SimpleNamespace(
        counters=Counters(), connections=(), streams=(), engine=SimpleNamespace(refusal=None)
    )
    return list(ServerCollector(idle, State(Limits())).collect())


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


def page() -> str:
    headers = ("Metric", "Type", "Labels", "Meaning")
    return joined(
        [
            *head("Metrics", "the collectors in src/driftq/http/system and src/driftq/pipeline/runtime"),
            INTRO,
            "## Server",
            SERVER,
            table(headers, rows(server_metrics())),
            "## Pipeline",
            PIPELINE,
            table(headers, rows(pipeline_metrics())),
        ]
    )
