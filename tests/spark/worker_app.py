"""Handlers as a user would write them, importable by Spark's Python workers; each is told its folder."""

from __future__ import annotations

import os
from pathlib import Path

from driftq.eventstore.published import PublishedEvent
from driftq.pipeline.worker.context import WorkerContext
from driftq.pipeline.worker.derived import DerivedEvent
from driftq.registry.verdict import UnknownEffect


def note(folder: str, event: PublishedEvent, context: WorkerContext) -> None:
    """Writes a line for each run; while there is a file `unsure` it cannot tell whether it did."""
    if Path(folder, "unsure").exists():
        raise UnknownEffect("somebody has to look")
    line = f"{event.aggregate_id} {event.sequence_number} {context.partition}\n"
    with Path(folder, "runs").open("a") as file:
        file.write(line)
        file.flush()
        os.fsync(file.fileno())


def derive(folder: str, event: PublishedEvent, context: WorkerContext) -> list[DerivedEvent]:
    """Writes a line, and derives two facts about another aggregate."""
    note(folder, event, context)
    return [
        DerivedEvent(
            aggregate_type="derived",
            aggregate_id=event.aggregate_id,
            event_type="counted",
            payload={"of": event.sequence_number, "n": n},
        )
        for n in range(2)
    ]


def runs(folder: Path) -> list[tuple[str, int, int]]:
    """What was written, in order: aggregate, sequence and topic partition."""
    file = folder / "runs"
    lines = file.read_text().splitlines() if file.exists() else []
    return [(name, int(sequence), int(partition)) for name, sequence, partition in map(str.split, lines)]


def nothing(event: PublishedEvent, context: WorkerContext) -> None:
    """For what is not about effects."""
