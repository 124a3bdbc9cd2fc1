"""Staging in PostgreSQL and Parquet: nothing is left over, a crash empties it, refused rows are isolated."""

from collections.abc import Iterator, Sequence
from random import Random
from string import ascii_letters

import pytest

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
