"""What commands of the pipeline share: where its jobs find their server, and where read models are."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Annotated

import typer

from driftq.errors import DriftQError
from driftq.settings import PipelineOptions, load_settings, load_url

Sinks = Annotated[
    list[str] | None,
    typer.Option(
        "--sink",
        metavar="URL",
        help="The target of read models, like redis://host:6379/0 (else DRIFTQ_SINKS); may be repeated.",
    ),
]


def pipeline_options(
    url: str | None, data: str | None, sinks: Sequence[str] | None = None
) -> PipelineOptions:
    """Of the pipeline's jobs and read models; addresses of sinks are checked before anything runs."""
    settings = load_settings()
    return settings.pipeline(
        url=load_url(url), data=os.path.abspath(data or settings.data), sinks=_checked(sinks or ())
    )


def _checked(sinks: Sequence[str]) -> Sequence[str]:
    if sinks:
        from driftq.sinks.urls import open_sink

        for address in sinks:
            try:
                open_sink(address)
            except DriftQError as refused:
                raise typer.BadParameter(str(refused).removeprefix("sink: "), param_hint="--sink") from None
    return sinks
