"""The log and the traces of long-running commands: options, and the set-up from them and the environment."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Literal

import typer

from driftq.settings import load_log, wants_traces

LevelName = Literal["debug", "info", "warning", "error"]
FormatName = Literal["text", "json"]
LogLevel = Annotated[
    LevelName | None,
    typer.Option("--log-level", help="The least level that is logged (else DRIFTQ_LOG_LEVEL, else info)."),
]
LogFormat = Annotated[
    FormatName | None,
    typer.Option(
        "--log-format",
        help="Text, or one JSON object a line (else DRIFTQ_LOG_FORMAT, else text).",
    ),
]


def log_to_stderr(level: str | None = None, form: str | None = None) -> None:
    """Log lines on stderr. What is not given comes from the environment; raises SettingsRefused."""
    from driftq.telemetry.log_lines import log_to

    least, written_as = load_log(level=level, form=form)
    log_to(level=least, form=written_as)


@contextmanager
def traced_as(service: str) -> Iterator[None]:
    """Export spans where OpenTelemetry's variables ask for it, and send the last ones at the end."""
    if not wants_traces():
        yield
        return
    from driftq.telemetry.tracing import start_tracing

    end = start_tracing(service)
    try:
        yield
    finally:
        end()
