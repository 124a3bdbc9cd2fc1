"""A writer that is killed between any two commits: its rows are whole, and its successor repeats the rest."""

from __future__ import annotations

import multiprocessing
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable
from deltalake.exceptions import CommitFailedError

from driftq.model import Aggregate
from driftq.sinks import Application, DeltaSink, ReadModel, TopicPartition
from driftq.testing.sinks.cast import change, seen, settled
from tests.conformance.delta import mortal
from tests.conformance.delta.conftest import NAME
from tests.conformance.delta.mortal import FIRST, ORDERS, REBUILT, SECOND, rebuild, write_batches


def contents(model: ReadModel) -> tuple[Any, ...]:
    aggregates = [Aggregate("order", name) for name in ("o-1", "o-2")]
    return (
        seen(model),
        settled(model),
        model.positions(),
        list(model.dead_letters()),
        model.waiting(aggregates),
    )


def kills(folder: Path, story: str) -> Iterator[DeltaSink]:
    """A folder for each commit that is not reached, until the story comes to its end."""
    context = multiprocessing.get_context("forkserver")  # Loads the libraries once, and starts none of them.
    context.set_forkserver_preload([mortal.__name__])
    for commit in range(50):
        place = folder.with_name(f"{story}-{commit}")
        if folder.exists():
            shutil.copytree(folder, place)
        process = context.Process(target=mortal.main, args=(str(place), story, commit))
        process.start()
        process.join()
        if process.exitcode == 0:
            assert commit > 4
            return
        assert process.exitcode == -signal.SIGKILL
        yield DeltaSink(str(place))


@pytest.mark.clause("V8", "V1", "Z6", "X3")
@pytest.mark.timeout(300)
def test_killed_before_any_commit_the_next_run_ends_with_the_same_rows(tmp_path: Path) -> None:
    whole = DeltaSink(str(tmp_path / "whole"))
    write_batches(whole)
    expected = contents(whole.connect(NAME))
    assert expected[0] == {("order", "o-1"): (5, {"at": 5}), ("order", "o-2"): (2, {"at": 2})}
    allowed: list[dict[TopicPartition, int]] = [{}, {ORDERS: 7}, {ORDERS: 12}]
    for sink in kills(tmp_path / "none", "batches"):
        model = sink.connect(NAME)
        left = model.positions()
        assert left in allowed
        if left:  # The rows of a position are there with it.
            assert settled(model).items() >= {("order", "gone"): (4, "order/gone/4")}.items()
        write_batches(sink)
        assert contents(sink.connect(NAME)) == expected


@pytest.mark.clause("V8", "V4", "Z6")
@pytest.mark.timeout(300)
def test_a_rebuild_killed_before_any_commit_leaves_the_old_rows_with_their_positions(tmp_path: Path) -> None:
    before = DeltaSink(str(tmp_path / "before"))
    write_batches(before)
    old = contents(before.connect(NAME))
    for sink in kills(tmp_path / "before", "rebuild"):
        model = sink.connect(NAME)
        if model.positions() == {ORDERS: 12}:
            assert contents(model) == old
        else:  # Killed after the swap, while it removed what was replaced.
            assert seen(model) == {("order", "o-1"): (4, {"at": 4})}
            assert model.positions() == REBUILT.positions
        rebuild(sink)
        again = sink.connect(NAME)
        assert seen(again) == {("order", "o-1"): (4, {"at": 4})}
        assert again.positions() == REBUILT.positions
        assert [dead.offset for dead in again.dead_letters()] == [3, 8]
        assert again.waiting([Aggregate("order", "o-2")]) == []


@pytest.mark.clause("V8", "V1")
def test_a_run_whose_answer_was_lost_knows_its_own_commit(
    sink: DeltaSink, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The storage has the commit, and reports a conflict with it: a bucket does so when it retries."""
    model = sink.connect(NAME)
    epoch = model.take_over()
    model.apply(FIRST, epoch)
    version = DeltaTable(model.address).version()
    original = DeltaTable.merge
    lost: list[bool] = []

    def merge(table: DeltaTable, *arguments: Any, **named: Any) -> Any:
        merger = original(table, *arguments, **named)
        execute = merger.execute

        def execute_once() -> Any:
            execute()
            if not lost:
                lost.append(True)
                table.load_as_version(version)
                raise CommitFailedError("version exists")

        merger.execute = execute_once  # type: ignore[method-assign]
        return merger

    monkeypatch.setattr(DeltaTable, "merge", merge)
    model.apply(Application(changes=SECOND.changes, positions=SECOND.positions), epoch)
    assert lost
    assert DeltaTable(model.address).version() == version + 1  # Not even the numbers are stored twice.
    assert model.positions() == SECOND.positions
    model.apply(Application(changes=[change(6)]), epoch)
    assert seen(model)["order", "o-1"][0] == 6
