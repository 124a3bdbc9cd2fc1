"""Two writers at once: the commit of one fails, and it looks again before it decides anew."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest
from deltalake import DeltaTable

from driftq.errors import ProjectionFenced, ReadModelSwapped
from driftq.sinks import Application, DeltaSink
from driftq.sinks.delta.model import DeltaReadModel
from driftq.sinks.delta.tables import ExactTable
from driftq.testing.sinks.cast import ORDERS, batch, change, dead_letter, seen, settled
from tests.conformance.delta.conftest import NAME

Interrupt = Callable[[Callable[[], object]], None]


@pytest.fixture
def interrupt(monkeypatch: pytest.MonkeyPatch) -> Interrupt:
    """What happens between the check of the next commit of rows and that commit."""

    def before_next_merge(happens: Callable[[], object]) -> None:
        merge = ExactTable.merge

        def interrupted(table: ExactTable, *arguments: Any, **named: Any) -> None:
            monkeypatch.setattr(ExactTable, "merge", merge)
            happens()
            merge(table, *arguments, **named)

        monkeypatch.setattr(ExactTable, "merge", interrupted)

    return before_next_merge


@pytest.mark.clause("V8", "V10", "Z6")
def test_a_run_that_is_replaced_after_its_check_writes_neither_rows_nor_position(
    sink: DeltaSink, model: DeltaReadModel, interrupt: Interrupt
) -> None:
    zombie = model.take_over()
    model.apply(batch(change(1), upto=1), zombie)
    heir = sink.connect(NAME)
    taken = []
    interrupt(lambda: taken.append(heir.take_over()))
    with pytest.raises(ProjectionFenced) as fenced:
        model.apply(batch(change(9), upto=9), zombie)
    assert (fenced.value.epoch, fenced.value.current) == (zombie.epoch, taken[0].epoch)
    assert (seen(heir), heir.positions()) == ({("order", "o-1"): (1, {"at": 1})}, {ORDERS: 1})


@pytest.mark.clause("V8", "V4")
def test_a_run_whose_rows_are_swapped_after_its_check_writes_nothing_into_the_new_ones(
    sink: DeltaSink, model: DeltaReadModel, interrupt: Interrupt
) -> None:
    live = model.take_over()
    model.apply(batch(change(1), change(1, of="gone"), upto=1), live)
    other = sink.connect(NAME)
    fresh = other.beside()
    building = fresh.take_over()
    fresh.apply(batch(change(3), upto=3), building)
    interrupt(lambda: other.swap(building))
    with pytest.raises(ReadModelSwapped):
        model.apply(batch(change(9), upto=9), live)
    assert (seen(model), model.positions()) == ({("order", "o-1"): (3, {"at": 3})}, {ORDERS: 3})


@pytest.mark.clause("V8", "V4")
def test_a_batch_that_comes_before_the_swap_is_seen_by_it(
    sink: DeltaSink, model: DeltaReadModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The swap has read the dead letters; a batch with another one comes first, and the swap begins again."""
    live = model.take_over()
    model.apply(batch(change(1), upto=1, dead=(dead_letter(1),)), live)
    other = sink.connect(NAME)
    fresh = other.beside()
    building = fresh.take_over()
    fresh.apply(batch(change(3), upto=3), building)
    replace_files = ExactTable.replace_files

    def late(table: ExactTable, *arguments: Any) -> None:
        monkeypatch.setattr(ExactTable, "replace_files", replace_files)
        model.apply(batch(change(2), upto=9, dead=(dead_letter(9),)), live)
        replace_files(table, *arguments)

    monkeypatch.setattr(ExactTable, "replace_files", late)
    other.swap(building)
    assert [dead.offset for dead in model.dead_letters()] == [1, 9]
    assert (seen(model), model.positions()) == ({("order", "o-1"): (3, {"at": 3})}, {ORDERS: 3})


@pytest.mark.clause("V8", "K10")
def test_a_projection_and_an_operator_who_redrives_lose_no_row(sink: DeltaSink) -> None:
    model, operator = sink.connect(NAME), sink.connect(NAME)
    epoch = model.take_over()

    def redrive() -> None:
        for number in range(8):
            assert operator.redrive(change(1, of=f"redriven-{number}"), f"letter-{number}", by="ada")

    thread = threading.Thread(target=redrive)
    thread.start()
    for number in range(8):
        model.apply(batch(change(1, of=f"o-{number}"), change(number + 1, of="both"), upto=number), epoch)
    thread.join(60)
    expected = {f"redriven-{number}" for number in range(8)} | {f"o-{number}" for number in range(8)}
    assert {name for _, name in settled(model)} == expected | {"both"}
    assert len(model.redrive_marks()) == 8
    assert model.positions() == {ORDERS: 7}


@pytest.mark.clause("V8", "V1")
def test_numbers_of_a_commit_are_those_of_delta_and_only_grow(sink: DeltaSink) -> None:
    model = sink.connect(NAME)
    first = model.take_over()
    model.apply(batch(change(1), upto=1), first)
    model.apply(Application(positions={ORDERS: 5}), first)
    assert DeltaTable(model.address).transaction_version(NAME) == (first.epoch << 32) + 2
    model.apply(batch(upto=3), first)  # A range that is settled: no commit.
    assert DeltaTable(model.address).transaction_version(NAME) == (first.epoch << 32) + 2
    second = model.take_over()
    assert DeltaTable(model.address).transaction_version(NAME) == second.epoch << 32
    assert second.epoch == first.epoch + 1
    assert model.positions() == {ORDERS: 5}


@pytest.mark.clause("V8", "V10", "V1")
def test_a_batch_of_nothing_but_old_events_moves_the_position(sink: DeltaSink, model: DeltaReadModel) -> None:
    epoch = model.take_over()
    model.apply(batch(change(5), upto=5), epoch)
    model.apply(batch(change(3), upto=9), epoch)
    assert sink.connect(NAME).positions() == {ORDERS: 9}
    assert seen(model) == {("order", "o-1"): (5, {"at": 5})}


@pytest.mark.clause("V8", "V4")
def test_a_rebuild_that_is_replaced_after_its_check_is_not_swapped_in(
    sink: DeltaSink, model: DeltaReadModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    model.apply(batch(change(1), upto=1), model.take_over())
    given_up = model.beside()
    old = given_up.take_over()
    given_up.apply(batch(change(8), upto=8), old)
    replace_files = ExactTable.replace_files

    def late(table: ExactTable, *arguments: Any) -> None:
        monkeypatch.setattr(ExactTable, "replace_files", replace_files)
        sink.connect(NAME).beside().take_over()
        replace_files(table, *arguments)

    monkeypatch.setattr(ExactTable, "replace_files", late)
    with pytest.raises(ProjectionFenced):
        model.swap(old)
    assert (seen(model), model.positions()) == ({("order", "o-1"): (1, {"at": 1})}, {ORDERS: 1})


@pytest.mark.clause("V8")
def test_another_program_may_compact_the_table_meanwhile(model: DeltaReadModel, interrupt: Interrupt) -> None:
    epoch = model.take_over()
    for number in range(3):
        model.apply(batch(change(1, of=f"o-{number}"), upto=number), epoch)
    interrupt(lambda: DeltaTable(model.address).optimize.compact())
    model.apply(batch(change(2, of="o-1"), upto=4), epoch)
    assert {name: row[0] for (_, name), row in seen(model).items()} == {"o-0": 1, "o-1": 2, "o-2": 1}
    assert model.positions() == {ORDERS: 4}
