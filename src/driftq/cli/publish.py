"""`driftq publish`: the publisher as a plain process, without Spark."""

from __future__ import annotations

import signal
from typing import Annotated

import typer

from driftq.cli.screen import Url, examples, say_aside, say_error
from driftq.cli.stores import Data
from driftq.cli.targets import pipeline_options

PUBLISH_EXAMPLES = examples("driftq publish", "driftq publish --once")


def publish(
    once: Annotated[
        bool, typer.Option("--once", help="Publish what is in the event log now, then exit.")
    ] = False,
    url: Url = None,
    data: Data = None,
) -> None:
    """Publish events to their topics, without Spark. It takes over from any other publisher."""
    from driftq.cli.loglines import log_to_stderr
    from driftq.errors import PositionsAhead, PublisherReplaced
    from driftq.publishing.plain import PlainPublisher

    publisher = PlainPublisher(pipeline_options(url, data))
    publisher.check()
    log_to_stderr()

    def stop(*_: object) -> None:
        publisher.stop()

    before = {number: signal.signal(number, stop) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        if not once:
            say_aside("publishing events as they are appended; press Ctrl-C to stop")
        publisher.run(once=once)
    except (PublisherReplaced, PositionsAhead) as ended:
        say_error(str(ended))
        raise typer.Exit(1) from None
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
