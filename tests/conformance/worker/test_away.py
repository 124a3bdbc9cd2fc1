"""A worker whose database or server goes away in the middle: it waits, and nothing is charged."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from sqlalchemy import text
from sqlalchemy.exc import OperationalError

from driftq.errors import DatabaseUnavailable, ServerUnreachable
from driftq.eventstore.published import PublishedEvent
from driftq.pipeline.worker.context import WorkerContext
from driftq.pipeline.worker.derived import DerivedEvent, derived_id
from driftq.registry import Claim, ClaimState, Effect
from driftq.registry.sql_registry import SqlRegistry
from driftq.sql import Database
from tests.conformance.worker.stage import LEASE_MS, Stage


def away() -> DatabaseUnavailable:
    return DatabaseUnavailable("the database", cause="connection refused")


@contextmanager
def failing(monkeypatch: pytest.MonkeyPatch, name: str, *, times: int, after: bool) -> Iterator[list[str]]:
    """A registry whose call fails so often, before or after it has done its work."""
    failed: list[str] = []
    real = getattr(SqlRegistry, name)

    def call(self: SqlRegistry, *args: object, **named: object) -> object:
        if len(failed) >= times:
            return real(self, *args, **named)
        failed.append(name)
        if after:
            real(self, *args, **named)
        raise away()

    with monkeypatch.context() as patch:
        patch.setattr(SqlRegistry, name, call)
        yield failed


@pytest.mark.clause("K7", "X8")
@pytest.mark.parametrize(
    ("name", "after"),
    [("claim_all", False), ("mark_done_all", False), ("mark_done_all", True)],
    ids=["claim-unheard", "mark-unheard", "mark-unanswered"],
)
def test_a_registry_that_is_away_is_waited_for(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, name: str, *, after: bool
) -> None:
    with failing(monkeypatch, name, times=3, after=after) as failed:
        assert stage.run(stage.worker(stage.note), "a1", "a2") == {"done": 2}
    assert len(failed) == 3
    assert stage.seen == ["a1", "a2"]
    assert [stage.registry.find("billing", f"a-{n}").attempts for n in (1, 2)] == [1, 1]


@pytest.mark.clause("K7", "K5")
def test_a_failure_is_counted_once_however_often_it_has_to_be_said(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    def handle(event: PublishedEvent, context: WorkerContext) -> None:
        if context.attempt == 1:
            raise RuntimeError("no")

    with failing(monkeypatch, "mark_failed", times=2, after=True):
        assert stage.run(stage.worker(handle), "a1") == {"failed": 1, "done": 1}
    assert stage.registry.find("billing", "a-1").attempts == 2


@pytest.mark.clause("K4", "K7")
def test_nothing_is_begun_under_a_lease_that_ran_out_during_an_outage(
    stage: Stage, another: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both were claimed together; the outage during the first one outlasted the lease of the second."""

    def handle(event: PublishedEvent, context: WorkerContext) -> None:
        stage.note(event, context)
        if event.aggregate_id == "a":
            stage.timing.wait(2 * LEASE_MS)
            assert another.run(another.worker(another.note), "b1") == {"done": 1}

    assert stage.run(stage.worker(handle), "a1", "b1") == {"done": 1, "lost": 1, "duplicate": 1}
    assert (stage.seen, another.seen) == (["a1"], ["b1"])


@pytest.fixture
def effects(database: Database) -> Callable[[], list[str]]:
    """A table beside the claims; what is in it."""
    with database.transaction() as transaction:
        made = database.renderer.render("CREATE TABLE {effects} (event_id {text} NOT NULL)")
        transaction.connection.execute(text(made))

    def listed() -> list[str]:
        with database.snapshot() as transaction:
            query = text(database.renderer.render("SELECT event_id FROM {effects} ORDER BY event_id"))
            return [row[0] for row in transaction.connection.execute(query)]

    return listed


def insert(event: PublishedEvent, context: WorkerContext) -> None:
    assert context.transaction is not None
    statement = context.transaction.renderer.render("INSERT INTO {effects} VALUES (:id)")
    context.transaction.connection.execute(text(statement), {"id": event.event_id})


@pytest.mark.clause("K6", "K7", "X8")
@pytest.mark.parametrize("when", ["before", "inside", "after"])
def test_a_transactional_effect_happens_once_through_an_outage(
    stage: Stage, effects: Callable[[], list[str]], monkeypatch: pytest.MonkeyPatch, when: str
) -> None:
    outages = [when]
    apply = SqlRegistry.apply

    @contextmanager
    def cut(self: SqlRegistry, claim: Claim) -> Iterator[object]:
        now = outages.pop() if outages else ""
        if now == "before":
            raise away()
        with apply(self, claim) as transaction:
            yield transaction
            if now == "inside":
                raise OperationalError("INSERT", {}, Exception("the connection is gone"))
        if now == "after":  # It is kept, and nobody was told.
            raise away()

    monkeypatch.setattr(SqlRegistry, "apply", cut)
    worker = stage.worker(insert, effect=Effect.TRANSACTIONAL)
    assert stage.run(worker, "a1", "a2") == {"done": 2}
    assert effects() == ["a-1", "a-2"]
    assert stage.registry.find("billing", "a-1").attempts == 1


@pytest.mark.clause("K6")
def test_a_failed_transactional_effect_leaves_nothing_behind(
    stage: Stage, effects: Callable[[], list[str]]
) -> None:
    def handle(event: PublishedEvent, context: WorkerContext) -> None:
        insert(event, context)
        if context.attempt == 1:
            raise RuntimeError("after the insert")
        if context.attempt == 2:
            context.transaction.connection.execute(text("SELECT nonsense"))  # type: ignore[union-attr]

    assert stage.run(stage.worker(handle, effect=Effect.TRANSACTIONAL), "a1") == {"failed": 2, "done": 1}
    assert effects() == ["a-1"]


@pytest.mark.clause("K7", "U4")
@pytest.mark.parametrize("effect", [Effect.IDEMPOTENT, Effect.TRANSACTIONAL])
def test_derived_events_are_appended_once_and_with_ids_that_repeat(stage: Stage, effect: Effect) -> None:
    def handle(event: PublishedEvent, _: WorkerContext) -> list[DerivedEvent]:
        stage.seen.append(event.event_id)
        return [
            DerivedEvent(aggregate_type="invoice", aggregate_id="i", event_type="billed", payload={"n": n})
            for n in range(2)
        ]

    outages = [1, 2, 3]

    def unreachable() -> None:
        if outages:
            outages.pop()
            raise ServerUnreachable("http://127.0.0.1:1", cause="refused")

    stage.store.before = unreachable
    worker = stage.worker(handle, effect=effect)
    assert stage.run(worker, "a1", "b1") == {"done": 2}
    assert stage.run(worker, "a1", "b1") == {"duplicate": 2}
    assert (stage.seen, outages) == (["a-1", "b-1"], [])
    wanted = {derived_id("billing", source, n) for source in ("a-1", "b-1") for n in range(2)}
    assert set(stage.store.events) == wanted
    assert {event.metadata["causation_id"] for event in stage.store.events.values()} == {"a-1", "b-1"}


@pytest.mark.clause("K2")
def test_what_a_crash_kept_from_the_event_store_comes_with_the_next_run(stage: Stage) -> None:
    class Killed(BaseException):
        """In place of a signal."""

    def handle(event: PublishedEvent, _: WorkerContext) -> list[DerivedEvent]:
        stage.seen.append(event.event_id)
        return [DerivedEvent(aggregate_type="i", aggregate_id="i", event_type="billed", payload=1)]

    def die() -> None:
        raise Killed

    stage.store.before = die
    with pytest.raises(Killed):
        stage.run(stage.worker(handle), "a1")
    assert stage.registry.find("billing", "a-1").state is ClaimState.DONE
    stage.store.before = lambda: None
    assert stage.run(stage.worker(handle), "a1") == {"duplicate": 1}
    assert (stage.seen, set(stage.store.events)) == (["a-1"], {derived_id("billing", "a-1", 0)})


@pytest.mark.clause("K5")
@pytest.mark.parametrize(
    "wrong", ["text", [1], [DerivedEvent(aggregate_type="i", aggregate_id="i", event_type="", payload=1)]]
)
def test_a_handler_that_returns_nonsense_is_a_dead_letter(stage: Stage, wrong: object) -> None:
    assert stage.run(stage.worker(lambda event, context: wrong), "a1", "b1") == {"dead": 2}  # type: ignore[return-value, arg-type]
    assert stage.store.events == {}
