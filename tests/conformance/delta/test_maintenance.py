"""A long stream: files stay few, old ones go after their time, and what no longer waits is forgotten."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest
from deltalake import DeltaTable, write_deltalake

from driftq.errors import ReadModelNotFound
from driftq.model import Aggregate
from driftq.sinks import Application, DeltaSink, OutOfOrderEvent
from driftq.sinks.arrow_rows import CHANGES, as_table
from driftq.sinks.delta import maintenance
from driftq.sinks.delta.model import DeltaReadModel
from driftq.testing.sinks.cast import ORDERS, batch, change, seen
from tests.conformance.delta.conftest import NAME

HOUR_S = 3600


@pytest.fixture
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(maintenance, "_COMPACT_COMMITS", 4)
    monkeypatch.setattr(maintenance, "_VACUUM_COMMITS", 8)
    monkeypatch.setattr(maintenance, "_FILES_MAX", 3)


def data_files(path: str) -> set[str]:
    return {str(file) for file in Path(path).rglob("*.parquet") if "_delta_log" not in str(file)}


@pytest.mark.clause("V8")
def test_many_small_batches_leave_few_files(model: DeltaReadModel, often: None) -> None:
    epoch = model.take_over()
    for number in range(20):  # Each is a new aggregate, so that no merge rewrites an older file.
        model.apply(batch(change(1, of=f"o-{number}"), upto=number), epoch)
        assert len(DeltaTable(model.address).file_uris()) <= 3 + 4
    assert len(seen(model)) == 20
    assert model.positions() == {ORDERS: 19}


@pytest.mark.clause("V8", "K8")
def test_events_that_wait_no_longer_are_removed(model: DeltaReadModel, often: None) -> None:
    epoch = model.take_over()
    late = [OutOfOrderEvent("order", f"o-{n}", 3, f"e-{n}", "{}", "t", 0, n) for n in range(4)]
    model.apply(Application(waiting=late, positions={ORDERS: 4}), epoch)
    for number in range(3):
        model.apply(batch(change(3, of=f"o-{number}"), upto=5 + number), epoch)
    for offset in range(10, 14):
        model.apply(batch(upto=offset), epoch)
    notes = DeltaTable(f"{model.address}/_driftq_notes").to_pyarrow_table()
    assert notes["kind"].to_pylist().count("waiting") == 1
    assert model.waiting([Aggregate("order", f"o-{n}") for n in range(4)]) == late[3:]


@pytest.mark.clause("V8")
def test_replaced_files_stay_for_readers_and_go_after_their_time(model: DeltaReadModel) -> None:
    epoch = model.take_over()
    for sequence in (1, 2, 3):
        model.apply(batch(change(sequence), upto=sequence), epoch)
    replaced = data_files(model.address)
    maintenance.vacuum(model._opened().table)
    assert data_files(model.address) == replaced
    table = DeltaTable(model.address)
    table.vacuum(retention_hours=0, dry_run=False, enforce_retention_duration=False)
    assert seen(model) == {("order", "o-1"): (3, {"at": 3})}
    model.apply(batch(change(4), upto=4), epoch)
    assert model.positions() == {ORDERS: 4}


@pytest.mark.clause("V8", "V4")
def test_an_abandoned_rebuild_is_removed_by_a_later_one_after_a_week(
    sink: DeltaSink, model: DeltaReadModel
) -> None:
    model.apply(batch(change(1), upto=1), model.take_over())
    abandoned = model.beside()
    abandoned.apply(batch(change(8, of="left over"), upto=8), abandoned.take_over())
    left = Path(model.address, "rebuild-1")
    assert data_files(str(left))
    for age_h, remains in ((1, True), (8 * 24, False)):
        then = time.time() - age_h * HOUR_S
        for file in left.rglob("*"):
            os.utime(file, (then, then))
        fresh = sink.connect(NAME).beside()
        building = fresh.take_over()
        fresh.apply(batch(change(2), upto=2), building)
        model.swap(building)
        assert bool(data_files(str(left))) is remains
        assert seen(model) == {("order", "o-1"): (2, {"at": 2})}
    notes = DeltaTable(f"{model.address}/_driftq_notes").to_pyarrow_table()
    assert set(notes["generation"].to_pylist()) == {3}


@pytest.mark.clause("V8")
def test_numbers_survive_a_checkpoint_and_the_removal_of_the_log_before_it(model: DeltaReadModel) -> None:
    epoch = model.take_over()
    model.apply(batch(change(1), upto=7), epoch)
    model.apply(batch(change(2)), epoch)
    table = DeltaTable(model.address)
    table.create_checkpoint()
    for entry in sorted(Path(model.address, "_delta_log").glob("*.json"))[:-1]:
        entry.unlink()
    heir = DeltaSink(str(Path(model.address).parent)).connect(NAME)
    assert heir.positions() == {ORDERS: 7}
    assert heir.take_over().epoch == epoch.epoch + 1


@pytest.mark.clause("V8")
def test_a_table_that_is_not_ours_is_not_a_read_model_yet(sink: DeltaSink, tmp_path: Path) -> None:
    with pytest.raises(ReadModelNotFound):
        list(sink.connect(NAME).rows())
    write_deltalake(str(tmp_path / NAME), as_table([change(1)], CHANGES))
    model = sink.connect(NAME)
    model.apply(batch(change(2), upto=1), model.take_over())
    assert seen(model) == {("order", "o-1"): (2, {"at": 2})}
