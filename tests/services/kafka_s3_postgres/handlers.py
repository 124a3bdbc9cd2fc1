"""Handlers that Spark's Python workers import; each is told its folder."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Collection
from pathlib import Path

from driftq.eventstore.published import PublishedEvent
from driftq.pipeline.worker.context import WorkerContext


def note(folder: str, sinks: Collection[str], event: PublishedEvent, context: WorkerContext) -> None:
    """A document in each sink, and a line for each run; while there is a file `broken`, it fails."""
    if Path(folder, "broken").exists():
        raise RuntimeError(f"attempt {context.attempt} fails")
    for sink in sinks:
        context.sink(sink).upsert({"event": event.event_id})
    with Path(folder, "runs").open("a") as file:
        file.write(f"{event.event_id}\n")
        file.flush()
        os.fsync(file.fileno())


def runs(folder: Path) -> Counter[str]:
    """How often each event was handled."""
    file = folder / "runs"
    return Counter(file.read_text().splitlines() if file.exists() else [])
