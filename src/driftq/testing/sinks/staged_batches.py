"""Batches that tasks write: what the driver's commit names counts, once."""

from __future__ import annotations

import pytest

from driftq.errors import ProjectionFenced, ReadModelSwapped, Unavailable
from driftq.model import Aggregate
from driftq.sinks import ReadModelSink, StagedCommit, StagedReadModel
from driftq.sinks.arrow_rows import CHANGES, as_table
from driftq.testing.sinks.cast import (
    ORDERS,
    batch,
    change,
    commit,
    dead_letter,
    out_of_order,
    seen,
    sequences,
    settled,
    write,
)
from driftq.testing.sinks.connected import Connect, ConnectedSuite


class StagedBatchesSuite(ConnectedSuite):
    """Several tasks, repeated attempts, zombies, swaps.

    A target that is not atomic shows what tasks write at once. Each row is that of an event of the topic all
    the same, and no position moves without a commit.
    """

    def test_rows_of_several_tasks_become_visible_together_and_the_newest_wins(
        self, sink: ReadModelSink, staged_model: StagedReadModel
    ) -> None:
        writer_epoch = staged_model.take_over()
        staged_model.apply(batch(change(3, of="o-3")), writer_epoch)
        staged = staged_model.open_batch(writer_epoch)
        first = write(staged, change(2), change(1, of="o-2"), change(1), task=0, attempt=7)
        second = write(staged, change(5, of="o-2"), change(2, of="o-3"), task=1, attempt=8)
        assert sequences(staged_model) == (
            {"o-3": 3} if sink.capabilities.atomic else {"o-1": 2, "o-2": 5, "o-3": 3}
        )
        assert staged_model.positions() == {}
        commit(staged, first, second, upto=9)
        assert sequences(staged_model) == {"o-1": 2, "o-2": 5, "o-3": 3}
        assert settled(staged_model)["order", "o-2"] == (5, "order/o-2/5")
        assert staged_model.positions() == {ORDERS: 9}

    def test_only_the_attempt_that_spark_names_counts(
        self, sink: ReadModelSink, staged_model: StagedReadModel
    ) -> None:
        """A first attempt that failed after staging, one that was cut off, and a third one that read less.

        Where the others have written documents at once, these stay: they are the newest of their aggregates.
        So does a dead letter, because a document may have been written without its event.
        """
        writer_epoch = staged_model.take_over()
        staged = staged_model.open_batch(writer_epoch)
        write(staged, change(9), change(9, of="lost"), attempt=1, dead=[dead_letter(1)])
        cut = staged.writer.begin(task=0, attempt=2)
        cut.write_changes(as_table([change(8, of="cut")], CHANGES))
        cut.close()  # Without `finish`: its process died.
        report = write(staged, change(2), attempt=3)
        commit(staged, report, upto=4)
        if not sink.capabilities.atomic:
            assert sequences(staged_model) == {"o-1": 9, "lost": 9, "cut": 8}
            assert list(staged_model.dead_letters()) == [dead_letter(1)]
            assert staged_model.positions() == {ORDERS: 4}
            return
        assert seen(staged_model) == {("order", "o-1"): (2, {"at": 2})}
        assert list(staged_model.dead_letters()) == []
        for number in range(3):  # What the others left does not come up later.
            again = staged_model.open_batch(writer_epoch)
            commit(again, write(again, change(3 + number)), upto=5 + number)
        assert set(seen(staged_model)) == {("order", "o-1")}

    def test_a_batch_that_is_repeated_changes_nothing(
        self, staged_model: StagedReadModel, connect: Connect
    ) -> None:
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

    def test_a_zombie_cannot_commit(
        self, sink: ReadModelSink, staged_model: StagedReadModel, connect: Connect
    ) -> None:
        zombie = staged_model.take_over()
        staged = staged_model.open_batch(zombie)
        report = write(staged, change(9))
        heir = connect()
        assert isinstance(heir, StagedReadModel)
        writer_epoch = heir.take_over()
        with pytest.raises(ProjectionFenced):
            commit(staged, report, upto=9)
        with pytest.raises(ProjectionFenced):
            staged_model.open_batch(zombie)
        fresh = heir.open_batch(writer_epoch)
        commit(fresh, write(fresh, change(1)), upto=1)
        assert sequences(heir) == {"o-1": 1 if sink.capabilities.atomic else 9}
        assert heir.positions() == {ORDERS: 1}

    def test_a_task_of_a_zombie_finds_its_staging_gone_or_settles_nothing(
        self, sink: ReadModelSink, staged_model: StagedReadModel, connect: Connect
    ) -> None:
        staged = staged_model.open_batch(staged_model.take_over())
        heir = connect()
        writer_epoch = heir.take_over()
        try:
            write(staged, change(9))
        except Unavailable:
            pass  # The driver opens the next batch, and learns that it was replaced.
        heir.apply(batch(change(1)), writer_epoch)
        assert sequences(heir) == {"o-1": 1 if sink.capabilities.atomic else 9}
        assert heir.positions() == {}

    def test_a_swap_between_staging_and_commit_refuses_the_batch(
        self, staged_model: StagedReadModel, connect: Connect
    ) -> None:
        staged = staged_model.open_batch(staged_model.take_over())
        report = write(staged, change(9))
        other = connect()
        fresh = other.beside()
        other.swap(fresh.take_over())
        with pytest.raises(ReadModelSwapped):
            commit(staged, report, upto=9)
        assert seen(staged_model) == {}

    def test_a_rebuild_is_staged_into_the_table_beside(
        self, staged_model: StagedReadModel, connect: Connect
    ) -> None:
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

    def test_waiting_events_and_dead_letters_are_staged_as_well(
        self, staged_model: StagedReadModel, connect: Connect
    ) -> None:
        writer_epoch = staged_model.take_over()
        late = [out_of_order(3), out_of_order(4)]
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

    def test_many_batches_of_several_tasks_each(self, staged_model: StagedReadModel) -> None:
        writer_epoch = staged_model.take_over()
        for sequence in range(1, 30):
            staged = staged_model.open_batch(writer_epoch)
            waits = out_of_order(50 + sequence, of="o-x", offset=sequence)
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
        assert set(sequences(staged_model).values()) == {29}
        assert len(sequences(staged_model)) == 12
        assert len(staged_model.waiting([Aggregate("order", "o-x")])) == 29

    def test_an_attempt_with_nothing_to_write_only_moves_the_position(
        self, staged_model: StagedReadModel
    ) -> None:
        staged = staged_model.open_batch(staged_model.take_over())
        commit(staged, write(staged, task=0, attempt=1), write(staged, task=1, attempt=2), upto=7)
        assert staged_model.positions() == {ORDERS: 7}
        assert seen(staged_model) == {}
