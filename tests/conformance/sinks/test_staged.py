"""Batches that tasks write: what the driver's commit names counts, once, and nothing else does."""

import pickle
from collections.abc import Sequence
from random import Random
from string import ascii_letters

import pytest

from driftq.errors import ProjectionFenced, ReadModelSwapped, Unavailable
from driftq.model import Aggregate
from driftq.sinks import (
    AttemptReport,
    Change,
    OutOfOrderEvent,
    PostgresSink,
    ProjectionDeadLetter,
    ReadModel,
    ReadModelSink,
    RefusedChange,
    StagedBatch,
    StagedCommit,
    StagedReadModel,
    WriterEpoch,
)
from driftq.sinks.arrow_rows import CHANGES, as_table
from tests.conformance.sinks.cast import ORDERS, batch, change, dead_letter, seen, settled
from tests.conformance.sinks.conftest import Connect
from tests.conformance.sinks.staging import empty_staging, leftovers, refuse_states


@pytest.fixture(params=["postgres", "parquet"])
def sink(request: pytest.FixtureRequest, any_sink: dict[str, ReadModelSink]) -> ReadModelSink:
    return any_sink[request.param]


@pytest.fixture
def staged_model(model: ReadModel) -> StagedReadModel:
    assert isinstance(model, StagedReadModel)
    return model


def write(
    staged: StagedBatch,
    *changes: Change,
    task: int = 0,
    attempt: int = 100,
    waiting: Sequence[OutOfOrderEvent] = (),
    dead: Sequence[ProjectionDeadLetter] = (),
) -> AttemptReport:
    """As a task does: with a writer that has travelled."""
    writer = pickle.loads(pickle.dumps(staged.writer)).begin(task=task, attempt=attempt)
    try:
        writer.write_changes(as_table(changes, CHANGES))
        writer.write_waiting(waiting)
        writer.write_dead_letters(dead)
        return writer.finish()
    finally:
        writer.close()


def commit(staged: StagedBatch, *reports: AttemptReport, upto: int = 0) -> None:
    staged.commit(StagedCommit(reports=reports, positions={ORDERS: upto}))


@pytest.mark.clause("V10", "V1")
def test_rows_of_several_tasks_become_visible_together_and_the_newest_wins(
    staged_model: StagedReadModel,
) -> None:
    writer_epoch = staged_model.take_over()
    staged_model.apply(batch(change(3, of="o-3")), writer_epoch)
    staged = staged_model.open_batch(writer_epoch)
    first = write(staged, change(2), change(1, of="o-2"), change(1), task=0, attempt=7)
    second = write(staged, change(5, of="o-2"), change(2, of="o-3"), task=1, attempt=8)
    assert seen(staged_model) == {("order", "o-3"): (3, {"at": 3})}
    assert staged_model.positions() == {}
    commit(staged, first, second, upto=9)
    assert {key[1]: row[0] for key, row in seen(staged_model).items()} == {"o-1": 2, "o-2": 5, "o-3": 3}
    assert settled(staged_model)["order", "o-2"] == (5, "order/o-2/5")
    assert staged_model.positions() == {ORDERS: 9}


@pytest.mark.clause("V10")
def test_only_the_attempt_that_spark_names_counts(staged_model: StagedReadModel) -> None:
    """A first attempt that failed after staging, and a second one that read less."""
    writer_epoch = staged_model.take_over()
    staged = staged_model.open_batch(writer_epoch)
    write(staged, change(9), change(9, of="lost"), attempt=1, dead=[dead_letter(1)])
    cut = staged.writer.begin(task=0, attempt=2)
    cut.write_changes(as_table([change(8, of="cut")], CHANGES))
    cut.close()  # Without `finish`: its process died.
    report = write(staged, change(2), attempt=3)
    commit(staged, report, upto=4)
    assert seen(staged_model) == {("order", "o-1"): (2, {"at": 2})}
    assert list(staged_model.dead_letters()) == []
    for number in range(3):  # What the others left does not come up later.
        again = staged_model.open_batch(writer_epoch)
        commit(again, write(again, change(3 + number)), upto=5 + number)
    assert set(seen(staged_model)) == {("order", "o-1")}


@pytest.mark.clause("V10", "Z6")
def test_a_batch_that_is_repeated_changes_nothing(staged_model: StagedReadModel, connect: Connect) -> None:
    writer_epoch = staged_model.take_over()
    for attempt in (1, 2):
        staged = staged_model.open_batch(writer_epoch)
        commit(staged, write(staged, change(2), attempt=attempt, dead=[dead_letter(1)]), upto=3)
    later = staged_model.open_batch(writer_epoch)
    commit(later, write(later, change(4), attempt=3), upto=5)
    before = (seen(staged_model), settled(staged_model), staged_model.positions())
    heir = connect()
    assert isinstance(heir, StagedReadModel)
    repeated = heir.open_batch(heir.take_over())
    commit(repeated, write(repeated, change(2), attempt=4, dead=[dead_letter(1)]), upto=3)
    assert (seen(heir), settled(heir), heir.positions()) == before
    assert list(heir.dead_letters()) == [dead_letter(1)]


@pytest.mark.clause("V10", "Z6")
def test_a_zombie_cannot_commit_and_leaves_nothing(staged_model: StagedReadModel, connect: Connect) -> None:
    zombie = staged_model.take_over()
    staged = staged_model.open_batch(zombie)
    report = write(staged, change(9))
    heir = connect()
    assert isinstance(heir, StagedReadModel)
    writer_epoch = heir.take_over()
    assert leftovers(heir) == 0
    with pytest.raises(ProjectionFenced):
        commit(staged, report, upto=9)
    with pytest.raises(ProjectionFenced):
        staged_model.open_batch(zombie)
    fresh = heir.open_batch(writer_epoch)
    commit(fresh, write(fresh, change(1)), upto=1)
    assert seen(heir) == {("order", "o-1"): (1, {"at": 1})}
    assert heir.positions() == {ORDERS: 1}
    assert leftovers(heir) == 0


@pytest.mark.clause("V10")
def test_a_task_of_a_zombie_finds_its_staging_gone_or_writes_for_nobody(
    staged_model: StagedReadModel, connect: Connect
) -> None:
    staged = staged_model.open_batch(staged_model.take_over())
    heir = connect()
    writer_epoch = heir.take_over()
    try:
        write(staged, change(9))
    except Unavailable:
        pass  # The driver opens the next batch, and is told that it was replaced.
    heir.apply(batch(change(1)), writer_epoch)
    assert seen(heir) == {("order", "o-1"): (1, {"at": 1})}


@pytest.mark.clause("V10")
def test_staging_that_was_emptied_moves_no_position(staged_model: StagedReadModel) -> None:
    writer_epoch = staged_model.take_over()
    staged = staged_model.open_batch(writer_epoch)
    reports = [write(staged, change(1), attempt=1), write(staged, change(1, of="o-2"), task=1, attempt=2)]
    empty_staging(staged_model)
    with pytest.raises(Unavailable):
        commit(staged, *reports, upto=5)
    assert staged_model.positions() == {}
    assert seen(staged_model) == {}
    again = staged_model.open_batch(writer_epoch)
    commit(again, write(again, change(1), attempt=3), upto=5)
    assert seen(staged_model) == {("order", "o-1"): (1, {"at": 1})}


@pytest.mark.clause("V10", "V4")
def test_a_swap_between_staging_and_commit_refuses_the_batch(
    staged_model: StagedReadModel, connect: Connect
) -> None:
    staged = staged_model.open_batch(staged_model.take_over())
    report = write(staged, change(9))
    other = connect()
    fresh = other.beside()
    other.swap(fresh.take_over())
    with pytest.raises(ReadModelSwapped):
        commit(staged, report, upto=9)
    assert seen(staged_model) == {}


@pytest.mark.clause("V10", "V4")
def test_a_rebuild_is_staged_into_the_table_beside(staged_model: StagedReadModel, connect: Connect) -> None:
    live = staged_model.take_over()
    staged_model.apply(batch(change(1, of="old"), upto=2), live)
    other = connect()
    fresh = other.beside()
    assert isinstance(fresh, StagedReadModel)
    building = fresh.take_over()
    for sequence in (1, 2):
        staged = fresh.open_batch(building)
        rows = [change(sequence, of=f"o-{number}") for number in range(200)]
        commit(staged, write(staged, *rows, *rows[:50], attempt=sequence), upto=sequence)
    other.swap(building)
    found = seen(staged_model)
    assert len(found) == 200
    assert {row[0] for row in found.values()} == {2}


@pytest.mark.clause("V10", "V3", "V3a")
def test_rows_that_the_target_refuses_are_isolated_and_become_dead_letters(
    postgres_sink: PostgresSink,
) -> None:
    """Whatever is wrong with a row: its JSON, its bytes, its key."""
    model = postgres_sink.connect("refusing")
    staged = model.open_batch(model.take_over())
    good = [change(1, of=f"o-{number:03}") for number in range(300)]
    bad = [
        Change("order", "bad json", 1, "e-1", "{no json"),
        Change("order", "bad\x00key", 1, "e-2", "{}"),
        Change("order", "".join(Random(1).choices(ascii_letters, k=20_000)), 1, "e-3", "{}"),
    ]
    report = write(staged, *good[:150], *bad, *good[150:])
    asked: list[RefusedChange] = []

    def find(refused: Sequence[RefusedChange]) -> list[ProjectionDeadLetter]:
        asked.extend(refused)
        return [dead_letter(number, error=each.error) for number, each in enumerate(refused)]

    with pytest.raises(Exception, match=r"json|byte|index"):
        commit(staged, report, upto=9)
    assert model.positions() == {}
    staged.commit(StagedCommit(reports=[report], positions={ORDERS: 9}, find_dead_letters=find))
    assert {each.change.event_id for each in asked} == {"e-1", "e-2", "e-3"}
    assert len(seen(model)) == 300
    assert model.positions() == {ORDERS: 9}
    assert len(list(model.dead_letters())) == 3
    model.close()


@pytest.mark.clause("V10", "V3")
def test_an_error_that_is_not_about_a_row_dead_letters_nothing(postgres_sink: PostgresSink) -> None:
    model = postgres_sink.connect("forbidden")
    staged = model.open_batch(model.take_over())
    report = write(staged, change(1))
    refuse_states(model, sqlstate="42501")
    with pytest.raises(Exception, match="refused by a trigger"):
        staged.commit(StagedCommit(reports=[report], positions={ORDERS: 9}, find_dead_letters=lambda _: []))
    assert model.positions() == {}
    model.close()


@pytest.mark.clause("V10", "K8")
def test_waiting_events_and_dead_letters_are_staged_as_well(
    staged_model: StagedReadModel, connect: Connect
) -> None:
    writer_epoch = staged_model.take_over()
    late = [OutOfOrderEvent("order", "o-1", number, f"e-{number}", "{}", "t", 0, number) for number in (3, 4)]
    aggregate = Aggregate("order", "o-1")
    staged = staged_model.open_batch(writer_epoch)
    odd = dead_letter(1, error="a\x00b", value="c\x00d")
    reports = [
        write(staged, waiting=late, dead=[odd], attempt=1),
        write(staged, waiting=late[:1], attempt=2, task=1),
    ]
    staged.commit(StagedCommit(reports=reports, positions={ORDERS: 4}, dead_letters=[dead_letter(2)]))
    assert [dead.offset for dead in staged_model.dead_letters()] == [1, 2]
    assert staged_model.waiting([aggregate]) == late
    staged = staged_model.open_batch(writer_epoch)
    attempt = staged.writer.begin(task=0, attempt=3)
    assert attempt.current([aggregate]) == {}
    assert attempt.waiting([aggregate]) == late
    attempt.write_changes(as_table([change(3)], CHANGES))
    report = attempt.finish()
    attempt.close()
    commit(staged, report, upto=5)
    heir = connect()
    assert heir.waiting([aggregate]) == late[1:]
    heir.apply(batch(change(4)), writer_epoch)
    assert heir.waiting([aggregate]) == []


@pytest.mark.clause("V10")
def test_many_batches_leave_no_staging_and_few_files(staged_model: StagedReadModel) -> None:
    writer_epoch: WriterEpoch = staged_model.take_over()
    for sequence in range(1, 30):
        staged = staged_model.open_batch(writer_epoch)
        waits = OutOfOrderEvent("order", "o-x", 50 + sequence, f"e-{sequence}", "{}", "t", 0, sequence)
        reports = [
            write(
                staged,
                *(change(sequence, of=f"o-{task}-{number}") for number in range(4)),
                task=task,
                attempt=10 * sequence + task,
                waiting=[waits] if task == 1 else [],
            )
            for task in range(3)
        ]
        commit(staged, *reports, upto=sequence)
    assert leftovers(staged_model) == 0
    assert {row[0] for row in seen(staged_model).values()} == {29}
    assert len(seen(staged_model)) == 12
    assert len(staged_model.waiting([Aggregate("order", "o-x")])) == 29


@pytest.mark.clause("V10", "V1")
def test_an_attempt_with_nothing_to_write_only_moves_the_position(staged_model: StagedReadModel) -> None:
    staged = staged_model.open_batch(staged_model.take_over())
    commit(staged, write(staged, task=0, attempt=1), write(staged, task=1, attempt=2), upto=7)
    assert staged_model.positions() == {ORDERS: 7}
    assert seen(staged_model) == {}
