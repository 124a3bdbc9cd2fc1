"""When the marks of effects are made: gathered for a moment where a repeat is harmless, else at once."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from driftq.eventstore.published import PublishedEvent
from driftq.pipeline.worker.context import WorkerContext
from driftq.pipeline.worker.derived import DerivedEvent, derived_id
from driftq.pipeline.worker.marks import MARKS_MAX, WINDOW_MS, GatheredMarks
from driftq.pipeline.worker.spec import HandlerCall
from driftq.pipeline.worker.store import WorkerStore
from driftq.pipeline.worker.timing import RunStopped
from driftq.registry import ClaimState, Effect, EventKey, Handler, Wait
from driftq.registry.sql_registry import SqlRegistry
from driftq.registry.verdict import Reject, UnknownEffect
from tests.conformance.worker.stage import LEASE_MS, Stage

FEW = ("a1", "b1", "c1")
BILLING = Handler("billing", Effect.IDEMPOTENT, max_retries=2, lease_ms=LEASE_MS)


def done(stage: Stage) -> list[str]:
    """The marked events, by their ids."""
    return [claim.event_id for claim in stage.registry.list_claims(ClaimState.DONE)]


def marked_before(stage: Stage) -> tuple[dict[str, list[str]], HandlerCall]:
    """A handler, and which events it finds marked whenever it starts."""
    found: dict[str, list[str]] = {}

    def handle(event: PublishedEvent, _: WorkerContext) -> None:
        found[event.event_id] = done(stage)

    return found, handle


@pytest.mark.clause("K11")
def test_marks_of_idempotent_effects_are_made_together_and_at_the_end_of_the_batch(stage: Stage) -> None:
    found, handle = marked_before(stage)
    assert stage.run(stage.worker(handle), *FEW) == {"done": 3}
    assert found == {"a-1": [], "b-1": [], "c-1": []}
    assert done(stage) == ["a-1", "b-1", "c-1"]


@pytest.mark.clause("K11")
def test_no_more_than_64_are_gathered(stage: Stage) -> None:
    """The first batch of claims has 64 events; a run whose batches have grown claims more."""
    found, handle = marked_before(stage)
    worker = stage.worker(handle)
    worker._most = 2 * MARKS_MAX + 10
    names = [f"{chr(ord('A') + nth)}1" for nth in range(2 * MARKS_MAX + 10)]
    assert stage.run(worker, *names) == {"done": len(names)}
    unmarked = [nth - len(marked) for nth, marked in enumerate(found.values())]
    assert max(unmarked) == MARKS_MAX - 1, "the 64th is marked before the next handler starts"


@pytest.mark.clause("K11")
def test_the_oldest_waits_50_ms(stage: Stage) -> None:
    found: dict[str, list[str]] = {}

    def handle(event: PublishedEvent, _: WorkerContext) -> None:
        found[event.event_id] = done(stage)
        stage.timing.wait(WINDOW_MS // 2 - 1)

    assert stage.run(stage.worker(handle), "a1", "b1", "c1", "d1", "e1") == {"done": 5}
    assert found["c-1"] == [], "after 24 ms"
    assert found["d-1"] == [], "after 48 ms"
    assert found["e-1"] == ["a-1", "b-1", "c-1", "d-1"], "after 72 ms"


@pytest.mark.clause("K11")
def test_what_has_become_old_is_marked_before_another_handler_starts(
    stage: Stage, another: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another worker has the second event, and to find out whether that one is alive takes a while."""
    found, handle = marked_before(stage)
    [held] = another.registry.claim_all(BILLING, [EventKey("b-1", "order", "b", 1)])

    def look_around(self: WorkerStore) -> int:
        stage.timing.wait(WINDOW_MS)
        another.registry.release(held)
        return 0

    monkeypatch.setattr(WorkerStore, "abandon_ended_owners", look_around)
    assert stage.run(stage.worker(handle), *FEW) == {"done": 3}
    assert found == {"a-1": [], "c-1": ["a-1"], "b-1": ["a-1", "c-1"]}


@pytest.mark.clause("K11")
def test_after_a_handler_that_took_50_ms_nothing_waits(stage: Stage) -> None:
    found: dict[str, list[str]] = {}

    def handle(event: PublishedEvent, _: WorkerContext) -> None:
        found[event.event_id] = done(stage)
        if event.aggregate_id == "b":
            stage.timing.wait(WINDOW_MS)

    assert stage.run(stage.worker(handle), *FEW) == {"done": 3}
    assert found == {"a-1": [], "b-1": [], "c-1": ["a-1", "b-1"]}


@contextmanager
def marked_at_failure(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[list[str]]]:
    """What is marked whenever a failure is about to be recorded."""
    found: list[list[str]] = []
    for name in ("mark_failed", "mark_unknown"):
        real = getattr(SqlRegistry, name)

        def call(self: SqlRegistry, *args: Any, real: Any = real, **named: Any) -> object:
            found.append(done(stage))
            return real(self, *args, **named)

        monkeypatch.setattr(SqlRegistry, name, call)
    yield found


@pytest.mark.clause("K11", "K5")
@pytest.mark.parametrize("error", [RuntimeError("no"), Reject("never"), UnknownEffect("who knows")], ids=repr)
def test_marks_are_made_before_a_failure_is_recorded(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def handle(event: PublishedEvent, context: WorkerContext) -> None:
        if event.aggregate_id == "c" and context.attempt == 1:
            raise error

    with marked_at_failure(stage, monkeypatch) as found:
        stage.run(stage.worker(handle), "a1", "b1", "c1", "d1")
    assert found == [["a-1", "b-1"]]


@pytest.mark.clause("K11")
def test_marks_are_made_before_a_run_stops_and_what_was_not_begun_is_given_back(stage: Stage) -> None:
    def handle(event: PublishedEvent, context: WorkerContext) -> None:
        stage.note(event, context)
        stage.timing.stopped = event.aggregate_id == "b"

    with pytest.raises(RunStopped):
        stage.run(stage.worker(handle), "a1", "b1", "c1", "d1")
    assert (stage.seen, done(stage)) == (["a1", "b1"], ["a-1", "b-1"])
    left = [stage.registry.find("billing", name) for name in ("c-1", "d-1")]
    assert [(claim.state, claim.attempts) for claim in left] == [(ClaimState.READY, 0)] * 2
    stage.timing.stopped = False
    assert stage.run(stage.worker(stage.note), "a1", "b1", "c1", "d1") == {"duplicate": 2, "done": 2}


@pytest.mark.clause("K11")
def test_an_interrupt_in_a_handler_costs_only_its_own_event(stage: Stage) -> None:
    def handle(event: PublishedEvent, _: WorkerContext) -> None:
        if event.aggregate_id == "b":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        stage.run(stage.worker(handle), *FEW)
    assert done(stage) == ["a-1"]
    states = [stage.registry.find("billing", name).state for name in ("b-1", "c-1")]
    assert states == [ClaimState.CLAIMED, ClaimState.READY]


@pytest.mark.clause("K11", "K4")
def test_leases_are_renewed_until_the_mark(stage: Stage, another: Stage) -> None:
    """The second handler runs for longer than a lease, and the first effect is not marked yet."""

    def handle(event: PublishedEvent, _: WorkerContext) -> None:
        if event.aggregate_id == "b":
            for _renewal in range(3):
                stage.timing.wait(LEASE_MS - 1)
                stage.heartbeats.beat()
            [claim] = another.registry.claim_all(BILLING, [EventKey("a-1", "order", "a", 1)])
            assert (done(stage), claim.wait) == ([], Wait.HELD)

    assert stage.run(stage.worker(handle), "a1", "b1") == {"done": 2}
    held = stage.registry.find("billing", "a-1")
    assert (held.state, held.attempts) == (ClaimState.DONE, 1)
    stage.heartbeats.beat()  # Nothing is held any more, so nothing is found to be lost.


@pytest.mark.clause("K11", "K4")
def test_a_lost_claim_concerns_its_event_alone(
    stage: Stage, another: Stage, caplog: pytest.LogCaptureFixture
) -> None:
    """The machine slept; another worker took one of the events over, and derives events from it too."""

    def handle(event: PublishedEvent, context: WorkerContext) -> list[DerivedEvent]:
        stage.note(event, context)
        if event.aggregate_id == "c":
            stage.timing.wait(2 * LEASE_MS)
            assert another.run(another.worker(another.note), "b1") == {"done": 1}
            stage.heartbeats.beat()
        return [DerivedEvent(aggregate_type="i", aggregate_id="i", event_type="billed", payload=1)]

    assert stage.run(stage.worker(handle), *FEW) == {"done": 2, "lost": 1, "duplicate": 1}
    assert (stage.seen, another.seen) == (["a1", "b1", "c1"], ["b1"])
    assert done(stage) == ["a-1", "b-1", "c-1"]
    assert set(stage.store.events) == {derived_id("billing", source, 0) for source in ("a-1", "c-1")}
    told = [record.message for record in caplog.records if "cannot finish" in record.message]
    assert [("b-1" in line) for line in told] == [True]


@pytest.mark.clause("K11")
def test_derived_events_are_stored_in_the_transaction_of_the_marks(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Killed between the two, if there were a between."""

    class Killed(BaseException):
        """In place of a signal."""

    def handle(event: PublishedEvent, _: WorkerContext) -> list[DerivedEvent]:
        return [DerivedEvent(aggregate_type="i", aggregate_id="i", event_type="billed", payload=1)]

    def die(*_: object, **__: object) -> None:
        raise Killed

    with monkeypatch.context() as patch, pytest.raises(Killed):
        patch.setattr(type(stage.ledger.derived), "keep", die)
        stage.run(stage.worker(handle), *FEW)
    assert (done(stage), stage.store.events) == ([], {})
    stage.timing.wait(LEASE_MS)
    assert stage.run(stage.worker(handle), *FEW) == {"done": 3}
    assert len(stage.store.events) == 3


@pytest.mark.clause("K11")
def test_later_attempts_are_marked_at_once(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    gathered: list[int] = []
    add = GatheredMarks.add

    def noting(self: GatheredMarks, mark: Any, *args: Any, **named: Any) -> None:
        gathered.append(mark.claim.attempt)
        add(self, mark, *args, **named)

    monkeypatch.setattr(GatheredMarks, "add", noting)

    def handle(event: PublishedEvent, context: WorkerContext) -> None:
        if context.attempt == 1 and event.aggregate_id == "a":
            raise RuntimeError("once")

    assert stage.run(stage.worker(handle), *FEW) == {"failed": 1, "done": 3}
    assert gathered == [1, 1], "of b and c"


@pytest.mark.clause("K11", "K6")
@pytest.mark.parametrize("effect", [Effect.TRANSACTIONAL, Effect.UNKNOWN])
def test_other_effects_are_marked_one_by_one(stage: Stage, effect: Effect) -> None:
    found, handle = marked_before(stage)
    assert stage.run(stage.worker(handle, effect=effect), *FEW) == {"done": 3}
    assert found == {"a-1": [], "b-1": ["a-1"], "c-1": ["a-1", "b-1"]}


@pytest.mark.clause("K11")
def test_a_run_in_the_driver_gathers_nothing(stage: Stage) -> None:
    """Nobody waits for its threads when it ends."""
    found, handle = marked_before(stage)
    assert stage.run(stage.worker(handle, gathers=False), *FEW) == {"done": 3}
    assert found == {"a-1": [], "b-1": ["a-1"], "c-1": ["a-1", "b-1"]}
