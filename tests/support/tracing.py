"""OpenTelemetry for one test: spans end in memory, and the process does not trace afterwards."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import ReadableSpan
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter


class Recorded:
    """The spans that have ended, and a tracer for the test's own."""

    def __init__(self, exporter: InMemorySpanExporter, tracer: Any) -> None:
        self._exporter = exporter
        self.tracer = tracer

    def all(self) -> list[ReadableSpan]:
        return list(self._exporter.get_finished_spans())

    def named(self, name: str) -> list[ReadableSpan]:
        return [span for span in self.all() if span.name == name]

    def trace_ids(self) -> set[int]:
        return {span.context.trace_id for span in self.all() if span.context is not None}


@contextmanager
def recorded_spans(sampler: Any = None) -> Iterator[Recorded]:
    """Load OpenTelemetry with an exporter in memory; unload it, so that later tests do not trace."""
    from opentelemetry import trace
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    provider, exporter = TracerProvider(sampler=sampler), InMemorySpanExporter()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    trace.set_tracer_provider(provider)
    try:
        yield Recorded(exporter, trace.get_tracer("tests"))
    finally:
        provider.shutdown()
        for name in [one for one in sys.modules if one.partition(".")[0] == "opentelemetry"]:
            del sys.modules[name]
