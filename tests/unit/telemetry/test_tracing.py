"""What counts as a traceparent, and when a process traces."""

import subprocess
import sys

import pytest

from driftq.settings import wants_traces
from driftq.telemetry.tracing import current_traceparent, handling_span, is_sampled, is_traceparent
from tests.support.tracing import recorded_spans

TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"


@pytest.mark.clause("O3")
@pytest.mark.parametrize(
    ("text", "valid"),
    [
        (f"00-{TRACE}-{SPAN}-01", True),
        (f"cc-{TRACE}-{SPAN}-01-more", True),
        (f"ff-{TRACE}-{SPAN}-01", False),
        (f"00-{'0' * 32}-{SPAN}-01", False),
        (f"00-{TRACE}-{'0' * 16}-01", False),
        (f"00-{TRACE.upper()}-{SPAN}-01", False),
        (f"00-{TRACE}-{SPAN}", False),
        ("", False),
        (f"00-{TRACE}-{SPAN}-01\r\nX: y", False),
    ],
)
def test_a_traceparent_is_what_w3c_says(text: str, valid: bool) -> None:
    assert is_traceparent(text) is valid


def test_the_last_bit_of_the_flags_says_whether_the_sender_records() -> None:
    assert is_sampled(f"00-{TRACE}-{SPAN}-01")
    assert is_sampled(f"00-{TRACE}-{SPAN}-03")
    assert not is_sampled(f"00-{TRACE}-{SPAN}-00")
    assert not is_sampled("nonsense")


@pytest.mark.clause("O3")
@pytest.mark.parametrize(
    ("environ", "wanted"),
    [
        ({}, False),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://collector:4318"}, True),
        ({"OTEL_TRACES_EXPORTER": "otlp"}, True),
        ({"OTEL_TRACES_EXPORTER": "none", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4318"}, False),
        ({"OTEL_SDK_DISABLED": "true", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4318"}, False),
        ({"OTEL_TRACES_SAMPLER": "always_on"}, False),
    ],
)
def test_commands_trace_when_the_standard_variables_ask_for_it(environ: dict[str, str], wanted: bool) -> None:
    assert wants_traces(environ) is wanted


@pytest.mark.clause("O3")
def test_importing_driftq_loads_no_opentelemetry() -> None:
    program = "import driftq, driftq.cli.app, sys; print('opentelemetry' in sys.modules)"
    said = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert said.stdout == "False\n"


@pytest.mark.clause("O3")
@pytest.mark.parametrize(
    ("flags", "spans"), [("00", 0), ("01", 1)], ids=["the sender has not sampled it", "it has"]
)
def test_a_handler_of_a_trace_that_is_not_sampled_continues_it_without_a_span(flags: str, spans: int) -> None:
    parent = f"00-{'a' * 32}-{'b' * 16}-{flags}"
    with recorded_spans() as recorded:
        with handling_span("process orders", parent, dict):
            inside = current_traceparent() or ""
            with recorded.tracer.start_as_current_span("of the handler"):
                pass
        assert inside.split("-")[1] == "a" * 32
        assert inside[-2:] == flags
        assert len(recorded.named("process orders")) == len(recorded.named("of the handler")) == spans
        assert current_traceparent() is None


@pytest.mark.clause("O3")
def test_a_sampler_that_decides_for_itself_is_asked() -> None:
    from opentelemetry.sdk.trace.sampling import ALWAYS_ON

    parent = f"00-{'a' * 32}-{'b' * 16}-00"
    with recorded_spans(sampler=ALWAYS_ON) as recorded:
        with handling_span("process orders", parent, dict):
            pass
        assert len(recorded.named("process orders")) == 1


@pytest.mark.clause("O3")
@pytest.mark.parametrize("given", [None, "nonsense"])
def test_a_handler_without_a_valid_trace_begins_one(given: str | None) -> None:
    with recorded_spans() as recorded:
        with handling_span("process orders", given, dict):
            pass
        assert len(recorded.named("process orders")) == 1
