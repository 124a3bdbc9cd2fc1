"""A writer and sealer that is killed at one step after the other, and started again.

Run with a plan in JSON as its argument. For each step, on a fresh database and a fresh place for segments: a
process of its own runs the story and is killed with SIGKILL when it gets to that step, then a second process
runs the same story to its end and tells what is there. One line of JSON each; the last is of a run that
nobody killed. Processes are forked from this one only to save the time of importing everything anew.

A step is any statement, commit, object or file that the story gets done. They are counted here, around the
product, which knows nothing of it.
"""

import json
import os
import signal
import sys
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from importlib import import_module
from pathlib import Path
from typing import Any

import obstore
import psycopg
import pyarrow.compute
import sqlalchemy.dialects.postgresql.psycopg
import sqlalchemy.dialects.sqlite.pysqlite
from sqlalchemy import CursorResult

from driftq.eventstore import Append, Appended, EventStore, SealOptions, event_migrations
from driftq.eventstore import objects as objects_module
from driftq.eventstore.objects import Objects, S3Access, open_objects
from driftq.eventstore.seal.sealer import Sealer
from driftq.eventstore.seal.segment import decode_segment
from driftq.model import Event, Operation
from driftq.sql import Database, Dialect, SqlRenderer, Statement, Transaction, open_database, upgrade

# Nobody else would import them before the first fork; pandas is what Arrow loads when it is there.
IMPORTED_ONCE = (import_module("pandas"), psycopg, pyarrow.compute, sqlalchemy.dialects)
CREATE, UPDATE = Operation.CREATE, Operation.UPDATE


class Countdown:
    """Kills this process at a given step; 0 spares it."""

    def __init__(self, steps: int) -> None:
        self.left = steps

    def step(self) -> None:
        self.left -= 1
        if self.left == 0:
            os.kill(os.getpid(), signal.SIGKILL)


class MortalTransaction(Transaction):
    __slots__ = ("_countdown",)

    def __init__(self, behind: Transaction, countdown: Countdown) -> None:
        super().__init__(behind.connection, behind.renderer, behind._clock)
        self._countdown = countdown

    def _execute(self, statement: Statement, given: dict[str, Any]) -> CursorResult[Any]:
        result = super()._execute(statement, given)
        self._countdown.step()
        return result

    def change_each(self, statement: Statement, rows: Sequence[Sequence[Any]]) -> int:
        return sum(self._change(statement, row) for row in rows)

    def _change(self, statement: Statement, row: Sequence[Any]) -> int:
        changed = super().change_each(statement, [row])
        self._countdown.step()
        return changed

    def look_up(self, statement: Statement, given: Sequence[Any]) -> list[tuple[Any, ...]]:
        found = super().look_up(statement, given)
        self._countdown.step()
        return found


class MortalDatabase:
    """A database whose user may die before and after each statement and commit."""

    def __init__(self, behind: Database, countdown: Countdown) -> None:
        self._behind = behind
        self._countdown = countdown

    @property
    def dialect(self) -> Dialect:
        return self._behind.dialect

    @property
    def renderer(self) -> SqlRenderer:
        return self._behind.renderer

    @property
    def address(self) -> str:
        return self._behind.address

    @contextmanager
    def transaction(self, *, planned_once: bool = False) -> Iterator[Transaction]:
        with self._behind.transaction(planned_once=planned_once) as transaction:
            yield MortalTransaction(transaction, self._countdown)
            self._countdown.step()
        self._countdown.step()

    @contextmanager
    def snapshot(self) -> Iterator[Transaction]:
        with self._behind.snapshot() as snapshot:
            yield snapshot

    def check(self) -> None:
        self._behind.check()

    def close(self) -> None:
        self._behind.close()


class MortalCalls:
    """A module whose functions are each followed by a step."""

    def __init__(self, behind: Any, countdown: Countdown) -> None:
        self._behind = behind
        self._countdown = countdown

    def __getattr__(self, name: str) -> Any:
        return followed(getattr(self._behind, name), self._countdown)


def followed(call: Callable[..., Any], countdown: Countdown) -> Callable[..., Any]:
    def stepping(*given: Any, **named: Any) -> Any:
        result = call(*given, **named)
        countdown.step()
        return result

    return stepping


def event(event_id: str, aggregate_id: str, operation: Operation, expected_seq: int | None) -> Append:
    return Append(
        Event(
            event_id=event_id,
            aggregate_type="order",
            aggregate_id=aggregate_id,
            event_type="Changed",
            kind="command",
            operation=operation,
            payload={"id": event_id},
        ),
        expected_seq,
    )


STORY = [
    [event("a1", "a", CREATE, None)],
    [event("a2", "a", UPDATE, 1), event("b1", "b", CREATE, None), event("a3", "a", UPDATE, 2)],
]


def live(database: Database, objects: Objects, acknowledge: Callable[[list[Appended]], None]) -> None:
    """The story: append and place twice, then seal what is there and trim it."""
    store = EventStore(database, objects=objects)
    sealer = Sealer(database, objects, owner="mortal", options=SealOptions(segment_events_max=3))
    assert sealer.take(force=True)
    for commands in STORY:
        acknowledge(store.append(commands))
        sealer.assign_positions()
    while sealer.seal(flush=True):
        pass
    sealer.trim()


class Stage:
    """One fresh database and one fresh place for segments; opened by each process for itself."""

    def __init__(self, plan: dict[str, Any]) -> None:
        name = f"t{uuid.uuid4().hex[:12]}"
        self._schema = name
        self._database_url = plan["database_url"].replace("FRESH", name)
        self._objects_url = plan["objects_url"].replace("FRESH", name)
        self._access = S3Access(**plan["access"])

    @cached_property
    def database(self) -> Database:
        schemas = {"sequence": f"{self._schema}_sequence"}
        return open_database(self._database_url, schema=self._schema, schemas=schemas, connections=2)

    @cached_property
    def objects(self) -> Objects:
        return open_objects(self._objects_url, access=self._access)

    def prepare(self) -> None:
        upgrade(self.database, event_migrations(self.database))

    def play(self, steps: int, acknowledgements: Path) -> None:
        countdown = Countdown(steps)
        database = MortalDatabase(self.database, countdown)
        stepping = {
            "obstore": MortalCalls(obstore, countdown),
            "_sync": followed(objects_module._sync, countdown),
        }
        vars(objects_module).update(stepping)
        with acknowledgements.open("a") as file:

            def acknowledge(answers: list[Appended]) -> None:
                for answer in answers:
                    file.write(json.dumps([answer.event_id, answer.sequence_number]) + "\n")
                file.flush()

            live(database, self.objects, acknowledge)

    def play_again(self, acknowledgements: Path) -> dict[str, Any]:
        """What a listing shows after the kill, and what a reader finds after the story was told again."""
        listed = self.segments()
        self.play(0, acknowledgements)
        log = EventStore(self.database, objects=self.objects).read_log().events
        return {
            "listed": listed,
            "log": [[each.position, each.event_id, each.aggregate_id, each.sequence_number] for each in log],
            "payloads": [each.payload["id"] for each in log],
            "segments": self.segments(),
        }

    def segments(self) -> list[list[int]]:
        """The positions in each segment that a listing shows; fails when one is not whole."""
        return [
            [event.position for event in decode_segment(self.objects.read(each.name), name=each.name)]
            for each in self.objects.segments()
        ]


def in_process_of_its_own(work: Callable[[], object]) -> Any:
    """What the work gives, as JSON; None when its process was killed."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.write(writing, json.dumps(work()).encode())
            os._exit(0)
        finally:
            os._exit(1)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        said = pipe.read()
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL:
        return None
    if status:
        raise RuntimeError(f"the process failed with status {status}")
    return json.loads(said)


def main(plan: dict[str, Any]) -> None:
    folder = Path(plan["folder"])
    for steps in range(1, 1000):
        run = killed_at(steps, Stage(plan), folder / f"{steps}.first", folder / f"{steps}.second")
        print(json.dumps(run), flush=True)
        if run["survived"]:
            return


def killed_at(steps: int, stage: Stage, first: Path, second: Path) -> dict[str, Any]:
    def play() -> bool:
        stage.prepare()
        stage.play(steps, first)
        return True

    survived = in_process_of_its_own(play) is not None
    found = in_process_of_its_own(lambda: stage.play_again(second))
    told = {"first": _lines(first), "second": _lines(second)}
    return {"step": steps, "survived": survived, **told, **found}


def _lines(path: Path) -> list[Any]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
