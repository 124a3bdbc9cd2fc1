"""Batches in a target without transactions: interrupted at any call, refused in parts, repeated."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from driftq.errors import DocumentRefused, ProjectionError, ProjectionFenced, ReadModelUnavailable
from driftq.model import Aggregate
from driftq.sinks import (
    AttemptReport,
    Change,
    ProjectionDeadLetter,
    RefusedChange,
    StagedCommit,
    TaskWriter,
    TopicPartition,
    WriterEpoch,
)
from driftq.sinks.arrow_rows import ANY_CHANGES, CHANGES, as_table
from driftq.sinks.documents import CALL_MAX, DocumentReadModel, DocumentSink
from driftq.testing.sinks.cast import (
    ORDERS,
    batch,
    change,
    commit,
    dead_letter,
    out_of_order,
    sequences,
    write,
    write_here,
)
from driftq.testing.sinks.connected import NAME
from driftq.testing.sinks.faults import FaultySink, StoreFaults, WriterStopped, be_away, each_call, stop


class OneBatch:
    """The events of one batch, which no other batch has: two tasks, a waiting event and a dead letter."""

    def __init__(self, number: int) -> None:
        self._names = [f"{letter}-{number}" for letter in "abcw"]
        self.positions = {TopicPartition("events.order", number): 9}
        self.dead = dead_letter(7)._replace(partition=number)
        self.published: list[ProjectionDeadLetter] = []

    def run(self, model: DocumentReadModel, epoch: WriterEpoch) -> None:
        """As a driver and its tasks do, without repeats."""
        a, b, c, w = self._names
        staged = model.open_batch(epoch)
        reports = [
            write_here(
                staged.writer,
                change(2, of=a),
                change(1, of=b),
                task=0,
                attempt=1,
                waiting=[out_of_order(5, of=w)],
                dead=[self.dead],
            ),
            write_here(staged.writer, change(3, of=a), change(4, of=c, deleted=True), task=1, attempt=2),
        ]
        staged.commit(
            StagedCommit(
                reports=reports, positions=self.positions, publish_dead_letters=self.published.extend
            )
        )

    def is_settled(self, model: DocumentReadModel) -> bool:
        return self.positions.items() <= model.positions().items()

    def check(self, model: DocumentReadModel) -> None:
        """Everything of it is there, and only once."""
        a, b, c, w = self._names
        found = model.current([Aggregate("order", name) for name in self._names])
        assert {row.aggregate_id: row.sequence_number for row in found.values()} == {a: 3, b: 1, c: 4}
        assert found[Aggregate("order", c)].state is None
        assert model.waiting([Aggregate("order", w)]) == [out_of_order(5, of=w)]
        assert [dead for dead in model.dead_letters() if dead.partition == self.dead.partition] == [self.dead]
        assert self.dead in self.published


class DocumentBatchesSuite:
    """What `DocumentReadModel` makes of the store under test."""

    def test_a_writer_may_stop_at_any_call(self, sink: DocumentSink) -> None:
        """Whenever the position has moved, all is there; and the next run loses and doubles nothing."""
        batches: list[OneBatch] = []

        def story(faults: StoreFaults) -> None:
            one = OneBatch(len(batches))
            batches.append(one)
            try:
                run_once(FaultySink(sink, faults), one)
            except WriterStopped:
                pass
            reader = DocumentReadModel.open(sink, NAME)
            if one.is_settled(reader):
                one.check(reader)
            run_once(sink, one)
            one.check(reader)
            assert one.is_settled(reader)
            reader.close()

        assert each_call(story, stop) > 20

    def test_an_outage_at_any_call_is_waited_out(self, sink: DocumentSink) -> None:
        """The same run repeats its batch, and spends nothing else."""
        batches: list[OneBatch] = []

        def story(faults: StoreFaults) -> None:
            one = OneBatch(len(batches))
            batches.append(one)
            model = FaultySink(sink, faults).connect(NAME)
            reader = DocumentReadModel.open(sink, NAME)
            epoch = None
            while not one.is_settled(reader):
                try:
                    epoch = epoch or model.take_over()
                    one.run(model, epoch)
                except ReadModelUnavailable:
                    assert faults.has_happened
            one.check(reader)
            reader.close()
            model.close()

        assert each_call(story, be_away) > 20

    def test_a_run_may_be_replaced_at_any_call(self, sink: DocumentSink) -> None:
        """The older one is fenced, or its batch was settled before; the newer one's counts in any case."""
        batches: list[OneBatch] = []

        def story(faults: StoreFaults) -> None:
            older, newer = OneBatch(len(batches)), OneBatch(len(batches) + 1)
            batches.extend([older, newer])
            faults.action = lambda: run_once(sink, newer)
            is_fenced = False
            try:
                run_once(FaultySink(sink, faults), older)
            except ProjectionFenced:
                is_fenced = True
            reader = DocumentReadModel.open(sink, NAME)
            if faults.has_happened:
                assert newer.is_settled(reader)
                newer.check(reader)
            assert older.is_settled(reader) or is_fenced
            if not is_fenced:
                older.check(reader)
            reader.close()

        assert each_call(story, stop) > 20

    def test_a_rebuild_may_be_swapped_in_at_any_call(self, sink: DocumentSink) -> None:
        """The run ends and nothing of its batch is in the place of the rebuild, or it came before."""
        rebuilt = batch(change(7, of="rebuilt"), upto=70)
        batches: list[OneBatch] = []

        def story(faults: StoreFaults) -> None:
            faults.action = lambda: rebuild_once(sink)
            one = OneBatch(len(batches) + 1)
            batches.append(one)
            model = FaultySink(sink, faults).connect(NAME)
            try:
                epoch = model.take_over()
                for _ in range(2):
                    try:
                        one.run(model, epoch)
                    except ReadModelUnavailable:
                        continue  # Its place was dropped.
                    break
            except ProjectionError:
                assert faults.has_happened
            model.close()
            if faults.has_happened:
                reader = DocumentReadModel.open(sink, NAME)
                found = sequences(reader)
                assert found.pop("rebuilt") == 7
                assert reader.positions()[ORDERS] == 70
                if one.is_settled(reader):  # It has begun after the swap.
                    one.check(reader)
                else:
                    assert found == {}
                reader.close()

        def rebuild_once(sink: DocumentSink) -> None:
            live = DocumentReadModel.open(sink, NAME)
            fresh = live.beside()
            building = fresh.take_over()
            fresh.apply(rebuilt, building)
            live.swap(building)
            live.close()

        assert each_call(story, stop) > 20

    def test_a_dead_letter_of_an_attempt_that_died_is_not_lost(self, sink: DocumentSink) -> None:
        """An ordered fold gives an event up and stores a row without it; a repeated task skips the event."""
        model = DocumentReadModel.open(sink, NAME)
        epoch = model.take_over()
        staged = model.open_batch(epoch)
        died = staged.writer.begin(task=0, attempt=1)
        died.write_dead_letters([dead_letter(5)])
        died.write_changes(as_table([change(6)], CHANGES))
        died.close()
        published: list[ProjectionDeadLetter] = []
        report = write(staged, attempt=2)
        staged.commit(
            StagedCommit(reports=[report], positions={ORDERS: 6}, publish_dead_letters=published.extend)
        )
        assert published == list(model.dead_letters()) == [dead_letter(5)]
        model.close()

    def test_a_target_that_has_lost_what_tasks_stored_moves_no_position(self, sink: DocumentSink) -> None:
        model = DocumentReadModel.open(sink, NAME)
        epoch = model.take_over()
        staged = model.open_batch(epoch)
        report = write(staged, change(1))
        place = model.require(epoch).place
        model.store.remove_notes(
            place, "attempts", [note.id for note in model.store.notes(place, "attempts")]
        )
        with pytest.raises(ReadModelUnavailable, match="1 of 1 tasks"):
            commit(staged, report, upto=5)
        assert model.positions() == {}
        again = model.open_batch(epoch)
        commit(again, write(again, change(1)), upto=5)
        assert model.positions() == {ORDERS: 5}
        model.close()

    def test_refused_documents_become_dead_letters_and_the_others_are_stored(
        self, sink: DocumentSink
    ) -> None:
        """Of an aggregate whose newest row is refused, the one before it is stored."""

        def refuse(change: Change) -> str | None:
            return (
                "refused by a test" if change.aggregate_id == "bad" and change.sequence_number > 2 else None
            )

        faulty = FaultySink(sink, StoreFaults(refuse=refuse))
        model = faulty.connect(NAME)
        staged = model.open_batch(model.take_over())
        good = [change(1, of=f"o-{number:03}") for number in range(300)]
        bad = [change(sequence, of="bad") for sequence in (1, 4, 3, 2)]
        broken = Change("order", "broken", 1, "e-1", "{no json")
        write_here(staged.writer, change(9, of="bad"), attempt=1)  # No report names it.
        report = write_here(staged.writer, *good[:150], *bad, broken, *good[150:], attempt=2)
        assert report.changes == 305
        with pytest.raises(DocumentRefused, match=r"order/bad at 4|order/broken at 1") as raised:
            commit(staged, report, upto=9)
        assert raised.value.count == 3
        assert (model.positions(), list(model.dead_letters())) == ({}, [])
        asked: list[RefusedChange] = []

        def find(refused: Sequence[RefusedChange]) -> list[ProjectionDeadLetter]:
            asked.extend(refused)
            return [dead_letter(len(asked) + at, error=each.error) for at, each in enumerate(refused)]

        staged.commit(StagedCommit(reports=[report], positions={ORDERS: 9}, find_dead_letters=find))
        assert {(each.change.aggregate_id, each.change.sequence_number) for each in asked} == {
            ("bad", 4),
            ("bad", 3),
            ("broken", 1),
        }
        assert {each.error for each in asked if each.change.aggregate_id == "bad"} == {"refused by a test"}
        assert sequences(model) == {"bad": 2} | {row.aggregate_id: 1 for row in good}
        assert model.positions() == {ORDERS: 9}
        assert len(list(model.dead_letters())) == 3
        model.close()

    def test_rows_without_a_key_become_dead_letters(self, sink: DocumentSink) -> None:
        model = DocumentReadModel.open(sink, NAME)
        staged = model.open_batch(model.take_over())
        rows = [change(1), ("order", None, 1, "e", "{}"), ("order", "o-2", None, "e", "{}"), change(2)]
        report = write_rows(staged.writer, rows)
        with pytest.raises(DocumentRefused):
            commit(staged, report, upto=3)
        asked: list[RefusedChange] = []

        def find(refused: Sequence[RefusedChange]) -> list[ProjectionDeadLetter]:
            asked.extend(refused)
            return [dead_letter(3)]

        staged.commit(StagedCommit(reports=[report], positions={ORDERS: 3}, find_dead_letters=find))
        assert [each.change[:3] for each in asked] == [("order", "", 1), ("order", "o-2", 0)]
        assert sequences(model) == {"o-1": 2}
        model.close()

    def test_a_batch_that_the_driver_applies_is_refused_as_a_whole(self, sink: DocumentSink) -> None:
        faulty = FaultySink(
            sink, StoreFaults(refuse=lambda change: "no" if change.aggregate_id == "bad" else None)
        )
        model = faulty.connect(NAME)
        epoch = model.take_over()
        with pytest.raises(DocumentRefused, match="order/bad at 1"):
            model.apply(batch(change(1), change(1, of="bad"), upto=2), epoch)
        assert model.positions() == {}
        with pytest.raises(DocumentRefused):
            model.redrive(change(1, of="bad"), "id", by="ada")
        assert model.redrive_marks() == {}
        model.close()

    def test_a_call_has_a_bounded_number_of_documents(self, sink: DocumentSink) -> None:
        faults = StoreFaults()
        model = FaultySink(sink, faults).connect(NAME)
        staged = model.open_batch(model.take_over())
        report = write_here(staged.writer, *(change(1, of=f"o-{number}") for number in range(CALL_MAX + 5)))
        commit(staged, report, upto=9)
        assert faults.largest_put == CALL_MAX
        assert len(sequences(model)) == CALL_MAX + 5
        model.close()

    def test_waiting_events_that_were_applied_are_removed(self, sink: DocumentSink) -> None:
        model = DocumentReadModel.open(sink, NAME)
        epoch = model.take_over()
        first = model.open_batch(epoch)
        commit(first, write(first, change(1), waiting=[out_of_order(3), out_of_order(5)]), upto=5)
        second = model.open_batch(epoch)
        attempt = second.writer.begin(task=0, attempt=1)
        assert attempt.waiting([Aggregate("order", "o-1")]) == [out_of_order(3), out_of_order(5)]
        attempt.write_changes(as_table([change(3)], CHANGES))
        report = attempt.finish()
        attempt.close()
        commit(second, report, upto=6)
        assert len(list(model.store.notes(model.require(epoch).place, "waiting"))) == 1
        model.close()


def run_once(sink: DocumentSink, one: OneBatch) -> None:
    """One run: it takes over, and settles one batch."""
    model = DocumentReadModel.open(sink, NAME)
    try:
        one.run(model, model.take_over())
    finally:
        model.close()


def write_rows(writer: TaskWriter, rows: Sequence[tuple[object, ...]]) -> AttemptReport:
    attempt = writer.begin(task=0, attempt=1)
    try:
        attempt.write_changes(as_table(rows, ANY_CHANGES))
        return attempt.finish()
    finally:
        attempt.close()
