"""A worker process whose handler writes to TerminusDB, and which stops at each step, to be killed.

`python mortal.py URL FOLDER SINK stops|finishes TOPIC=DATABASE …`: the claims are in the database's registry.
Every run of a handler is a line in `runs`, and what stops says `at STEP` on stdout. A topic's name ends in
`.STEP`. At `before-apply` it goes on when the file `go` is there.
"""

import json
import sys
import threading
from pathlib import Path

import driftq
from driftq.registry.sql_registry import SqlRegistry
from driftq.sinks import Change
from driftq.sinks.terminusdb import TerminusSink
from driftq.sql import open_database
from tests.acceptance.worker.mortal import say, step_of, stop_at
from tests.support.waiting import wait_until

LEASE_MS = 4_000
STEPS = ("after-claim", "before-apply", "after-apply", "before-mark-done")
NAME = "effects"


def stop_at_each_step() -> None:
    claimed = lambda _, handler, event: event.aggregate_type  # noqa: E731
    stop_at("after-claim", SqlRegistry, "claim", claimed, before=False)
    marked = lambda _, claim, **named: claim.event.aggregate_type  # noqa: E731
    stop_at("before-mark-done", SqlRegistry, "mark_done", marked)


def main(url: str, folder: Path, sink: str, *, stops: bool, sites: list[str]) -> None:
    if stops:
        stop_at_each_step()

    def apply(message: driftq.Message, context: driftq.Context) -> None:
        step = step_of(message.topic)
        with (folder / "runs").open("a") as runs:
            runs.write(f"{step} {message.value}\n")
        if stops and step == "before-apply":
            say(step)
            wait_until("it may go on", (folder / "go").exists, within_s=600)
            # As if it had stopped between the look at its lease and the write.
            late = Change(message.topic, step, 1, "late", json.dumps({"at": message.value}))
            TerminusSink(sink).connect(NAME).put([late])
            say("applied late")
            return
        context.sink(NAME).upsert({"at": message.value})
        if stops and step == "after-apply":
            say(step)
            threading.Event().wait()

    for site in sites:
        topic, _, database = site.partition("=")
        registry = SqlRegistry(open_database(database))
        worker = driftq.Worker(
            driftq.Client(url), group="orders", lease_ms=LEASE_MS, registry=registry, sinks={NAME: sink}
        )
        worker.on(topic, effect=driftq.Effect.IDEMPOTENT, concurrency=1)(apply)
        worker.start()
    threading.Event().wait()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), sys.argv[3], stops=sys.argv[4] == "stops", sites=sys.argv[5:])
