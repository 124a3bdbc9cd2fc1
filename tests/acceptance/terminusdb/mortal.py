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
PROJECTION, PLACE = "effects", "e" * 32


def stop_at_each_step() -> None:
    claimed = lambda _, handler, event: event.aggregate_type  # noqa: E731
    stop_at("after-claim", SqlRegistry, "claim", claimed, before=False)
    marked = lambda _, claim, **named: claim.event.aggregate_type  # noqa: E731
    stop_at("before-mark-done", SqlRegistry, "mark_done", marked)


def main(url: str, folder: Path, sink: str, *, stops: bool, sites: list[str]) -> None:
    if stops:
        stop_at_each_step()
    store = TerminusSink(sink).open_store(PROJECTION)

    def apply(message: driftq.Message, context: driftq.Context) -> None:
        given = json.loads(message.value)
        step = step_of(message.topic)
        with (folder / "runs").open("a") as runs:
            runs.write(f"{step} {given['sequence']}\n")
        if stops and step == "before-apply":
            say(step)
            wait_until("it may go on", (folder / "go").exists, within_s=600)
        state = json.dumps({"at": given["sequence"]})
        refused = store.put(PLACE, [Change("order", step, given["sequence"], message.value, state)])
        assert not refused
        if stops and step == "after-apply":
            say(step)
            threading.Event().wait()
        if stops and step == "before-apply":
            say("applied late")

    for site in sites:
        topic, _, database = site.partition("=")
        registry = SqlRegistry(open_database(database))
        worker = driftq.Worker(driftq.Client(url), group="orders", lease_ms=LEASE_MS, registry=registry)
        worker.on(topic, effect=driftq.Effect.IDEMPOTENT, concurrency=1)(apply)
        worker.start()
    threading.Event().wait()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), sys.argv[3], stops=sys.argv[4] == "stops", sites=sys.argv[5:])
