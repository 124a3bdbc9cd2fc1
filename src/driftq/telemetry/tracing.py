"""The way to OpenTelemetry, which is optional: without it, everything here does nothing.

A process traces when it has OpenTelemetry loaded: an application that sets a tracer provider itself, or a
command that `start_tracing` configured from the standard OTEL_* variables. Whether it is loaded is asked of
`sys.modules`, so a process that does not trace pays for one look into a dict.

The context travels as a W3C `traceparent`: in the envelope of a message, in a job, in the metadata of an
event. Whoever handles it continues the trace that it names.
"""

from __future__ import annotations

import logging
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

logger = logging.getLogger("driftq.tracing")

TRACEPARENT = "traceparent"
_VALID = re.compile(r"[0-9a-f]{2}-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}(-.*)?")
_API = "opentelemetry.trace"
_CONTEXT = "opentelemetry.context"
_SAMPLING = "opentelemetry.sdk.trace.sampling"
_TRACER = "driftq"

Attributes = Mapping[str, str | int]


def is_traceparent(text: str) -> bool:
    """Whether this is a traceparent as W3C defines it; version ff is reserved."""
    return _VALID.fullmatch(text) is not None and not text.startswith("ff")


def is_tracing() -> bool:
    """Whether this process has OpenTelemetry loaded."""
    return _API in sys.modules


def current_traceparent() -> str | None:
    """The context of the current span, to be sent along; None without one."""
    api = sys.modules.get(_API)
    if api is None:
        return None
    context = api.get_current_span().get_span_context()
    if not context.is_valid:
        return None
    return f"00-{context.trace_id:032x}-{context.span_id:016x}-{int(context.trace_flags):02x}"


def current_trace_id() -> str | None:
    """For log lines."""
    api = sys.modules.get(_API)
    if api is None:
        return None
    context = api.get_current_span().get_span_context()
    return f"{context.trace_id:032x}" if context.is_valid else None


def handling_span(
    name: str, traceparent: str | None, attributes: Callable[[], Attributes]
) -> AbstractContextManager[Any]:
    """The span of one handler's run, a child of the span that sent its message or job.

    The block gets the span, or None; an exception that leaves the block is recorded on it. Where the sender
    has not sampled the trace and the process follows that, as OpenTelemetry does by default, the block only
    continues the trace: most of a span's cost would be for nothing.
    """
    api = sys.modules.get(_API)
    if api is None:
        return nullcontext()
    if traceparent is not None and is_traceparent(traceparent) and not _has_sampled(traceparent):
        if _drops_unsampled(api.get_tracer_provider()):
            return _Continued(_remote_context(traceparent))
    return _started(name, traceparent, attributes())


def _drops_unsampled(provider: Any) -> bool:
    """Whether the sampler follows a remote parent that is not sampled; False where it does not tell."""
    sampling = sys.modules.get(_SAMPLING)
    if sampling is None:
        return False
    # A ParentBased sampler tells nobody what it asks in this case. Under another name a span is started.
    asked = getattr(getattr(provider, "sampler", None), "_remote_parent_not_sampled", None)
    return asked is not None and asked is sampling.ALWAYS_OFF


class _Continued(AbstractContextManager[None]):
    """This context is the current one in the block; there is no span."""

    __slots__ = ("_context", "_token")

    def __init__(self, context: Any) -> None:
        self._context = context

    def __enter__(self) -> None:
        self._token = sys.modules[_CONTEXT].attach(self._context)

    def __exit__(self, *_: object) -> None:
        sys.modules[_CONTEXT].detach(self._token)


@contextmanager
def _started(name: str, traceparent: str | None, attributes: Attributes) -> Iterator[Any]:
    from opentelemetry import trace

    with trace.get_tracer(_TRACER).start_as_current_span(
        name, context=_context_of(traceparent), kind=trace.SpanKind.CONSUMER, attributes=dict(attributes)
    ) as span:
        yield span


def record_failure(span: Any, error: BaseException) -> None:
    """The run failed without raising here."""
    if span is not None:
        from opentelemetry import trace

        span.record_exception(error)
        span.set_status(trace.Status(trace.StatusCode.ERROR, type(error).__name__))


def report_spans(
    name: str, traceparents: Iterable[str], *, began_ns: int, ended_ns: int, attributes: Attributes
) -> None:
    """A span for each of these traces: work on a batch that they share, done between these times."""
    if _API not in sys.modules:
        return
    from opentelemetry import trace

    tracer = trace.get_tracer(_TRACER)
    for traceparent in traceparents:
        span = tracer.start_span(
            name,
            context=_context_of(traceparent),
            kind=trace.SpanKind.CONSUMER,
            attributes=dict(attributes),
            start_time=began_ns,
        )
        span.end(end_time=ended_ns)


def is_sampled(traceparent: str) -> bool:
    """Whether the sender records its spans."""
    return is_traceparent(traceparent) and _has_sampled(traceparent)


def _has_sampled(valid: str) -> bool:
    return bool(int(valid[53:55], 16) & 1)


def _context_of(traceparent: str | None) -> Any:
    """The remote context; None, which means the current one, where there is no valid traceparent."""
    return None if traceparent is None or not is_traceparent(traceparent) else _remote_context(traceparent)


def _remote_context(valid: str) -> Any:
    trace = sys.modules[_API]
    remote = trace.SpanContext(
        trace_id=int(valid[3:35], 16),
        span_id=int(valid[36:52], 16),
        is_remote=True,
        trace_flags=trace.TraceFlags(int(valid[53:55], 16)),
    )
    return trace.set_span_in_context(trace.NonRecordingSpan(remote))


def start_tracing(service: str) -> Callable[[], None]:
    """Export spans as the OTEL_* variables say; returns what sends the last of them at the end.

    Logs a warning and does nothing where the packages are missing: a worker without traces still works.
    """
    try:
        from opentelemetry import trace
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import SERVICE_NAME, OTELResourceDetector, Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ModuleNotFoundError as missing:
        logger.warning("OTEL_* asks for traces, but %s is missing: install driftq[otel]", missing.name)
        return lambda: None
    named = OTELResourceDetector().detect()  # OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES win.
    provider = TracerProvider(resource=Resource.create({SERVICE_NAME: service}).merge(named))
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    trace.set_tracer_provider(provider)
    return provider.shutdown
