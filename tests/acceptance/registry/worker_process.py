"""A worker as a process of its own, which stops at a named step to be killed there.

It claims each event, performs the effect, marks it and then acknowledges it, which is a line in `acks`. At
the step it is given it says so and waits for ever; a step that never comes lets it run to its end.
"""

import os
from multiprocessing.connection import Connection
from pathlib import Path

from sqlalchemy import text

from driftq.registry import Claim, ClaimOutcome, Effect, EventKey, Handler, Wait
from driftq.registry.sql_registry import SqlRegistry
from driftq.sql import Database, Transaction, open_database

LEASE_MS = 400
STEPS = ["claimed", "before_effect", "after_effect", "before_mark_done", "after_mark_done"]


def handler(effect: Effect) -> Handler:
    return Handler(f"crash-{effect}", effect, max_retries=50, lease_ms=LEASE_MS)


def event(number: int) -> EventKey:
    return EventKey(f"e{number}", "order", f"order-{number}", 1)


class Worker:
    def __init__(self, database: Database, folder: Path, *, stop_at: str, line: Connection) -> None:
        self._database = database
        self._folder = folder
        self._stop_at = stop_at
        self._line = line
        self.registry = SqlRegistry(database, owner=f"process {os.getpid()}")

    def handle(self, claim: Claim) -> None:
        self._step("claimed")
        if claim.handler.effect is Effect.TRANSACTIONAL:
            with self.registry.apply(claim) as transaction:
                self._step("before_effect")
                self._insert(transaction, claim)
                self._step("after_effect")
                self._step("before_mark_done")
        else:
            self._step("before_effect")
            self._write("effects", f"{claim.event.event_id} {claim.token}")
            self._step("after_effect")
            self._step("before_mark_done")
            self.registry.mark_done(claim)
        self._step("after_mark_done")

    def acknowledge(self, event_id: str) -> None:
        self._write("acks", event_id)

    def _insert(self, transaction: Transaction, claim: Claim) -> None:
        insert = self._database.renderer.render(
            "INSERT INTO {effects} (event_id, token) VALUES (:id, :token)"
        )
        given = {"id": claim.event.event_id, "token": claim.token}
        transaction.connection.execute(text(insert), given)

    def _write(self, name: str, line: str) -> None:
        with (self._folder / name).open("a") as file:
            file.write(line + "\n")
            file.flush()
            os.fsync(file.fileno())

    def _step(self, name: str) -> None:
        if name == self._stop_at:
            self._line.send(f"at {name}")
            self._line.recv()


def work(
    line: Connection, *, url: str, schema: str, folder: Path, effect: Effect, stop_at: str, events: int
) -> None:
    """What the process does; `line` leads to the test."""
    worker = Worker(open_database(url, schema=schema), folder, stop_at=stop_at, line=line)
    waiting = [event(number) for number in range(events)]
    while waiting:
        one = waiting.pop(0)
        claim = worker.registry.claim(handler(effect), one)
        if claim.granted:
            worker.handle(claim)
        if claim.outcome is not ClaimOutcome.IN_PROGRESS:
            worker.acknowledge(one.event_id)
        elif claim.wait is Wait.UNRESOLVED:
            line.send(f"unknown {one.event_id}")
        else:
            waiting.append(one)
    line.send("finished")
