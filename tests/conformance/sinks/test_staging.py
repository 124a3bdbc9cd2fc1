"""Staging in PostgreSQL and Parquet: nothing is left over, a crash empties it, refused rows are isolated."""

from collections.abc import Iterator, Sequence
from random import Random
from string import ascii_letters

import pytest
from sqlalchemy import text

from driftq.errors import Unavailable
from driftq.sinks import (
    Change,
    PostgresSink,
    ProjectionDeadLetter,
    ReadModelSink,
    RefusedChange,
    StagedCommit,
    StagedReadModel,
)
from driftq.sinks.arrow_rows import CHANGES, as_table
from driftq.testing.sinks.cast import ORDERS, change, commit, dead_letter, seen, write
from driftq.testing.sinks.connected import NAME
from tests.conformance.sinks.staging import empty_staging, leftovers, refuse_states


@pytest.fixture(params=["postgres", "parquet"])
def sink(request: pytest.FixtureRequest, any_sink: dict[str, ReadModelSink]) -> ReadModelSink:
    return any_sink[request.param]


@pytest.fixture
def staged_model(sink: ReadModelSink) -> Iterator[StagedReadModel]:
    model = sink.connect(NAME)
    assert isinstance(model, StagedReadModel)
    yield model
    model.close()


@pytest.mark.clause("V10", "Z6")
def test_the_staging_of_a_zombie_is_removed_by_its_successor(
    sink: ReadModelSink, staged_model: StagedReadModel
) -> None:
    write(staged_model.open_batch(staged_model.take_over()), change(9))
    heir = sink.connect(NAME)
    assert isinstance(heir, StagedReadModel)
    writer_epoch = heir.take_over()
    assert leftovers(heir) == 0
    for number in range(1, 4):
        fresh = heir.open_batch(writer_epoch)
        commit(fresh, write(fresh, change(number)), upto=number)
    assert leftovers(heir) == 0
    heir.close()


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


@pytest.mark.clause("V10", "V3", "V3a")
def test_a_part_with_a_refused_row_takes_no_other_part_of_its_attempt_with_it(
    postgres_sink: PostgresSink,
) -> None:
    """A task writes in parts; PostgreSQL refuses the second one of this task at once."""
    model = postgres_sink.connect("refusing")
    staged = model.open_batch(model.take_over())
    attempt = staged.writer.begin(task=0, attempt=7)
    attempt.write_dead_letters([dead_letter(8)])
    attempt.write_changes(as_table([change(1), change(1, of="o-2")], CHANGES))
    attempt.write_changes(
        as_table(
            [change(2, of="o-2"), Change("order", "o-3", 1, "e-3", "{no json"), change(1, of="o-4")], CHANGES
        )
    )
    attempt.write_changes(as_table([change(2), change(1, of="o-5")], CHANGES))
    report = attempt.finish()
    attempt.close()
    assert (report.changes, report.dead_letters) == (7, 1)
    with pytest.raises(Exception, match="json"):
        commit(staged, report, upto=9)
    assert seen(model) == {}
    assert model.positions() == {}

    def find(refused: Sequence[RefusedChange]) -> list[ProjectionDeadLetter]:
        return [dead_letter(9, error=each.change.aggregate_id) for each in refused]

    staged.commit(StagedCommit(reports=[report], positions={ORDERS: 9}, find_dead_letters=find))
    assert {key[1]: row[0] for key, row in seen(model).items()} == {"o-1": 2, "o-2": 2, "o-4": 1, "o-5": 1}
    assert [(dead.offset, dead.error) for dead in model.dead_letters()][1:] == [(9, "o-3")]
    assert leftovers(model) == 0
    model.close()


@pytest.mark.clause("V1", "V10")
def test_an_aggregate_may_have_rows_in_every_part_of_a_batch(postgres_sink: PostgresSink) -> None:
    """Whether the read model is empty or not: the highest sequence stays, and of equal ones one event."""
    staged_model = postgres_sink.connect(NAME)
    writer_epoch = staged_model.take_over()
    for first in (1, 4):
        staged = staged_model.open_batch(writer_epoch)
        reports = []
        for task, rows in enumerate(([2, 0], [1, 2], [0])):
            attempt = staged.writer.begin(task=task, attempt=first * 10 + task)
            for later in rows:
                other = Change("order", "o-9", first, f"event-{later}-{task}", '{"at":0}')
                table = as_table(
                    [change(first + later), change(first, of=f"o-{task}{later}"), other], CHANGES
                )
                attempt.write_changes(table)
            reports.append(attempt.finish())
            attempt.close()
        commit(staged, *reports, upto=first)
        assert seen(staged_model)["order", "o-1"] == (first + 2, {"at": first + 2})
        events = {row.aggregate_id: row.last_event_id for row in staged_model.registry()}
        assert events["o-9"] == "event-0-0"
    assert len(seen(staged_model)) == 7
    staged_model.close()


@pytest.mark.clause("V10", "Z6")
def test_staging_that_an_earlier_version_left_is_removed(postgres_sink: PostgresSink) -> None:
    """It kept all rows of a batch in one table."""
    model = postgres_sink.connect(NAME)
    model.take_over()
    schema, stage = postgres_sink.schema, "driftq_stage_before"
    with model.database.transaction() as transaction:
        for statement in (
            f"CREATE UNLOGGED TABLE {schema}.{stage} (task integer, attempt bigint, kind smallint)",
            f"INSERT INTO {schema}.driftq_stages VALUES ('{stage}', '{NAME}', 1, 1)",
        ):
            transaction.connection.execute(text(statement))
    assert leftovers(model) == 2
    model.take_over()
    assert leftovers(model) == 0
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
