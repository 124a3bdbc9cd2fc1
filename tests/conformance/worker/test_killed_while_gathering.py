"""Real signals for a worker whose effects have happened and whose marks have not all been made."""

import os
import signal
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from sqlalchemy import text

from driftq.eventstore.published import PublishedEvent
from driftq.pipeline.worker.context import WorkerContext
from driftq.pipeline.worker.heartbeats import ClaimHeartbeats
from driftq.pipeline.worker.marks import MARKS_MAX
from driftq.pipeline.worker.queues import TopicEvent
from driftq.pipeline.worker.runtime import make_run
from driftq.pipeline.worker.store import WorkerStore
from driftq.pipeline.worker.timing import RunStopped, SystemTiming
from driftq.registry import ClaimState, Effect, Handler
from driftq.registry.liveness import Liveness
from driftq.registry.sql_registry import SqlRegistry
from driftq.sql import Database
from driftq.testing.clock import VirtualClock
from tests.conformance.registry.conftest import OpenDatabase
from tests.conformance.worker.stage import LEASE_MS, Stage, Store, on_topic

EVENTS = 130
NAMES = [f"{chr(0x100 + nth)}1" for nth in range(EVENTS)]
"""Each of an aggregate of its own."""


@pytest.fixture(autouse=True)
def table(database: Database) -> None:
    """A table beside the claims, for transactional effects."""
    with database.transaction() as transaction:
        made = database.renderer.render("CREATE TABLE {effects} (event_id {text} NOT NULL)")
        transaction.connection.execute(text(made))


class NotedEffects:
    """A handler whose effects outlive its process: a line in a file, or a row with the mark."""

    def __init__(self, folder: Path, *, at: int = 0, then: Callable[[], None] = lambda: None) -> None:
        self._file = os.open(folder / "runs", os.O_CREAT | os.O_APPEND | os.O_WRONLY)
        self._at = at
        self._then = then
        self._runs = 0

    def __call__(self, event: PublishedEvent, context: WorkerContext) -> None:
        if context.transaction is not None:
            insert = context.transaction.renderer.render("INSERT INTO {effects} VALUES (:id)")
            context.transaction.connection.execute(text(insert), {"id": event.event_id})
        os.write(self._file, f"{event.event_id}\n".encode())
        self._runs += 1
        if self._runs == self._at:
            self._then()


def runs(folder: Path) -> Counter[str]:
    return Counter((folder / "runs").read_text().splitlines())


def rows(database: Database) -> Counter[str]:
    with database.snapshot() as transaction:
        query = text(database.renderer.render("SELECT event_id FROM {effects}"))
        return Counter(row[0] for row in transaction.connection.execute(query))


def in_child(work: Callable[[int], None]) -> int:
    """Run the work in a forked child, which gets a pipe to report through; returns when it has reported."""
    heard, said = os.pipe()
    child = os.fork()
    if not child:
        try:
            work(said)
        finally:
            os._exit(1)
    os.close(said)
    assert os.read(heard, 1) == b"!", "the other process failed"
    os.close(heard)
    return child


def kill_worker(
    open_again: OpenDatabase, clock: VirtualClock, folder: Path, *, effect: Effect, after: int
) -> None:
    """A worker that gets SIGKILL inside its handler, when so many effects have happened."""

    def work(said: int) -> None:
        def wait_for_the_end() -> None:
            os.write(said, b"!")
            signal.pause()

        stage = Stage(SqlRegistry(open_again(clock)), clock)
        alive = Liveness(folder / "workers", stage.registry.incarnation)
        worker = stage.worker(NotedEffects(folder, at=after, then=wait_for_the_end), effect=effect)
        worker._most = 1 if effect is Effect.UNKNOWN else EVENTS
        stage.run(worker, *NAMES)
        alive.close()

    child = in_child(work)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)


def next_worker(stage: Stage, folder: Path, effect: Effect) -> dict[str, int]:
    stage.ledger = WorkerStore.on(stage.registry, liveness_folder=folder / "workers")
    stage.ledger.abandon_ended_owners()
    return stage.run(stage.worker(NotedEffects(folder), effect=effect), *NAMES)


@pytest.mark.clause("K11", "X2")
@pytest.mark.parametrize("after", [1, MARKS_MAX, MARKS_MAX + 36])
def test_a_killed_worker_repeats_the_gathered_effects_and_no_others(
    stage: Stage, open_again: OpenDatabase, clock: VirtualClock, tmp_path: Path, after: int
) -> None:
    kill_worker(open_again, clock, tmp_path, effect=Effect.IDEMPOTENT, after=after)
    marked = {claim.event_id for claim in stage.registry.list_claims(ClaimState.DONE)}
    assert len(marked) == (after - 1) // MARKS_MAX * MARKS_MAX
    happened = set(runs(tmp_path))
    assert len(happened - marked) <= MARKS_MAX
    assert next_worker(stage, tmp_path, Effect.IDEMPOTENT)["done"] == EVENTS - len(marked)
    assert {name for name, times in runs(tmp_path).items() if times == 2} == happened - marked
    assert (len(runs(tmp_path)), max(runs(tmp_path).values())) == (EVENTS, 2)


@pytest.mark.clause("K11", "K6", "X2")
def test_a_killed_worker_repeats_no_transactional_effect(
    stage: Stage, open_again: OpenDatabase, clock: VirtualClock, tmp_path: Path, database: Database
) -> None:
    kill_worker(open_again, clock, tmp_path, effect=Effect.TRANSACTIONAL, after=5)
    assert len(rows(database)) == 4, "the fifth was not committed"
    next_worker(stage, tmp_path, Effect.TRANSACTIONAL)
    assert (len(rows(database)), max(rows(database).values())) == (EVENTS, 1)


@pytest.mark.clause("K11", "K6", "X2")
def test_a_killed_worker_repeats_no_unknown_effect(
    stage: Stage, open_again: OpenDatabase, clock: VirtualClock, tmp_path: Path
) -> None:
    kill_worker(open_again, clock, tmp_path, effect=Effect.UNKNOWN, after=5)
    assert next_worker(stage, tmp_path, Effect.UNKNOWN) == {
        "duplicate": 4,
        "unknown": 1,
        "parked": 1,
        "done": EVENTS - 5,
    }
    assert (len(runs(tmp_path)), max(runs(tmp_path).values())) == (EVENTS, 1)
    assert len(stage.registry.list_claims(ClaimState.UNKNOWN)) == 1


@pytest.mark.clause("K11")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_worker_that_is_told_to_stop_leaves_nothing_to_repeat(
    stage: Stage, open_again: OpenDatabase, clock: VirtualClock, tmp_path: Path, number: signal.Signals
) -> None:
    """As Spark ends its Python processes."""

    def work(said: int) -> None:
        timing = SystemTiming()
        store = WorkerStore.on(SqlRegistry(open_again(clock)))
        call = NotedEffects(tmp_path, at=3, then=lambda: os.kill(os.getpid(), number))
        with timing.stopped_by_signals():
            run = make_run(
                Handler("billing", Effect.IDEMPOTENT, lease_ms=LEASE_MS),
                call,
                store,
                event_store=Store(),
                heartbeats=ClaimHeartbeats(lambda: store.claims, every_ms=60_000, timing=timing),
                timing=timing,
                gathers=True,
            )
            try:
                run.run(map(TopicEvent.of, on_topic(*NAMES[:10])))
            except RunStopped:
                os.write(said, b"!")
        os._exit(0)

    child = in_child(work)
    assert os.waitpid(child, 0)[1] == 0
    marked = [claim.event_id for claim in stage.registry.list_claims(ClaimState.DONE)]
    assert Counter(marked) == runs(tmp_path)
    assert len(marked) == 3
    given_back = stage.registry.list_claims(ClaimState.READY)
    assert [claim.attempts for claim in given_back] == [0] * 7
