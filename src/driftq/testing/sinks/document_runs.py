"""Rebuilds, swaps and redrives in a target without transactions, interrupted at any call."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

from driftq.errors import ProjectionFenced, ReadModelUnavailable
from driftq.model import Aggregate
from driftq.sinks import WriterEpoch
from driftq.sinks.dead_letters import dead_letter_id_of
from driftq.sinks.documents import DocumentReadModel, DocumentSink
from driftq.sinks.documents.control import read_control
from driftq.testing.sinks.cast import ORDERS, batch, change, dead_letter, sequences
from driftq.testing.sinks.connected import NAME
from driftq.testing.sinks.faults import FaultySink, StoreFaults, WriterStopped, be_away, each_call, stop


class DocumentRunsSuite:
    """A reader sees the old read model or the new one, and no interruption leaves neither."""

    def test_a_swap_may_stop_at_any_call(self, sink: DocumentSink) -> None:
        def story(faults: StoreFaults) -> None:
            before, building, number = prepare(sink)
            doomed = FaultySink(sink, faults).connect(NAME)
            with suppress(WriterStopped):
                doomed.swap(building)
            doomed.close()
            reader = DocumentReadModel.open(sink, NAME)
            assert sequences(reader) in (before, {"new": number})
            assert [dead.offset for dead in reader.dead_letters()][:1] == [0]
            was_swapped = sequences(reader) == {"new": number}
            epoch = reader.take_over()
            assert sequences(reader) == ({"new": number} if was_swapped else before)
            reader.apply(batch(change(1, of="later")), epoch)
            control = read_control(reader.store)
            assert control.retired == ()
            reader.close()

        assert each_call(story, stop) > 10

    def test_a_swap_is_repeated_after_an_outage_at_any_call(self, sink: DocumentSink) -> None:
        def story(faults: StoreFaults) -> None:
            _, building, number = prepare(sink)
            model = FaultySink(sink, faults).connect(NAME)
            until_done(lambda: model.swap(building))
            model.close()
            reader = DocumentReadModel.open(sink, NAME)
            for _ in range(2):
                assert sequences(reader) == {"new": number}
                assert reader.positions() == {ORDERS: number}
                reader.swap(building)  # It is done: another one changes nothing.
            reader.close()

        assert each_call(story, be_away) > 10

    def test_another_rebuild_may_begin_at_any_call_of_a_swap(self, sink: DocumentSink) -> None:
        """The swap is refused, or it came first; nothing that is live or being built is dropped."""
        others: list[tuple[DocumentReadModel, WriterEpoch]] = []

        def begin() -> None:
            model = DocumentReadModel.open(sink, NAME).beside()
            epoch = model.take_over()
            model.apply(batch(change(1, of="another"), upto=1), epoch)
            others.append((model, epoch))

        def story(faults: StoreFaults) -> None:
            before, building, number = prepare(sink)
            faults.action = begin
            model = FaultySink(sink, faults).connect(NAME)
            with suppress(ProjectionFenced):
                until_done(lambda: model.swap(building))
                before = {"new": number}
            model.close()
            reader = DocumentReadModel.open(sink, NAME)
            assert sequences(reader) == before
            if others:
                fresh, epoch = others.pop()
                assert sequences(fresh) == {"another": 1}
                reader.swap(epoch)
                assert sequences(reader) == {"another": 1}
                fresh.close()
            reader.close()

        assert each_call(story, stop) > 10

    def test_whatever_swaps_at_any_call_of_a_start_the_live_place_is_published_last(
        self, sink: DocumentSink
    ) -> None:
        def story(faults: StoreFaults) -> None:
            _, building, number = prepare(sink)
            other = StoreFaults(published=faults.published)

            def swap() -> None:
                swapping = FaultySink(sink, other).connect(NAME)
                swapping.swap(building)
                swapping.close()

            faults.action = swap
            model = FaultySink(sink, faults).connect(NAME)
            until_done(model.take_over)
            model.close()
            reader = DocumentReadModel.open(sink, NAME)
            if faults.has_happened:
                assert sequences(reader) == {"new": number}
            assert faults.published[-1] == read_control(reader.store).live.place
            reader.close()

        assert each_call(story, stop) > 4

    def test_a_redrive_may_stop_at_any_call_and_is_repeated(self, sink: DocumentSink) -> None:
        dead = dead_letter(4)
        id = dead_letter_id_of(NAME, dead)
        numbers: list[int] = []

        def story(faults: StoreFaults) -> None:
            numbers.append(len(numbers) + 1)
            name = f"o-{len(numbers)}"
            live = DocumentReadModel.open(sink, NAME)
            live.apply(batch(change(1, of=name), upto=4, dead=(dead,)), live.take_over())
            doomed = FaultySink(sink, faults).connect(NAME)
            with suppress(WriterStopped):
                doomed.redrive(change(2, of=name), id, by="ada")
            doomed.close()
            live.redrive(change(2, of=name), id, by="bob")
            assert sequences(live)[name] == 2
            assert set(live.redrive_marks()) == {id}
            live.close()

        assert each_call(story, stop) > 4

    def test_a_redrive_goes_to_the_place_that_a_swap_has_made_live(self, sink: DocumentSink) -> None:
        id = dead_letter_id_of(NAME, dead_letter(0))

        def story(faults: StoreFaults) -> None:
            _, building, number = prepare(sink)

            def swap() -> None:
                other = DocumentReadModel.open(sink, NAME)
                other.swap(building)
                other.close()

            faults.action = swap
            model = FaultySink(sink, faults).connect(NAME)
            model.redrive(change(number, of="redriven"), id, by=f"ada-{number}")
            model.close()
            came_behind = faults.is_after and faults.at == faults.calls - 1
            reader = DocumentReadModel.open(sink, NAME)
            assert came_behind or sequences(reader)["redriven"] == number
            assert reader.redrive_marks()[id].redriven_by == f"ada-{number}"
            reader.close()

        assert each_call(story, stop) > 4

    def test_a_reader_sees_the_old_or_the_new_whatever_call_a_swap_comes_at(self, sink: DocumentSink) -> None:
        aggregates = [Aggregate("order", "old"), Aggregate("order", "new")]

        def story(faults: StoreFaults) -> None:
            before, building, number = prepare(sink)

            def swap() -> None:
                other = DocumentReadModel.open(sink, NAME)
                other.swap(building)
                other.close()

            faults.action = swap
            reader = FaultySink(sink, faults).connect(NAME)
            found = reader.current(aggregates)
            assert {each.id: row.sequence_number for each, row in found.items()} in (before, {"new": number})
            assert list(reader.dead_letters()) == [dead_letter(0)]
            try:
                rows = sequences(reader)
            except ReadModelUnavailable:
                rows = sequences(reader)
            assert rows in (before, {"new": number})
            reader.close()

        assert each_call(story, stop) > 10

    def test_a_rebuild_that_was_given_up_leaves_no_place(self, sink: DocumentSink) -> None:
        model = DocumentReadModel.open(sink, NAME)
        model.apply(batch(change(1)), model.take_over())
        places: list[str] = []
        building = WriterEpoch(0, 0)
        for sequence in (1, 2, 3):
            fresh = model.beside()
            building = fresh.take_over()
            places.append(fresh.require(building).place)
            fresh.apply(batch(change(sequence, of="built")), building)
        model.swap(building)
        assert len(set(places)) == 3
        for place in places[:2]:
            with suppress(ReadModelUnavailable):
                assert list(model.store.scan(place)) == []
        assert sequences(model) == {"built": 3}
        model.close()


def prepare(sink: DocumentSink) -> tuple[dict[str, int], WriterEpoch, int]:
    """What readers see, and a finished rebuild with one row of this sequence that differs from it."""
    model = DocumentReadModel.open(sink, NAME)
    number = 10 + model.positions().get(ORDERS, 0)
    epoch = model.take_over()
    model.apply(batch(change(number, of="old"), upto=number, dead=(dead_letter(0),)), epoch)
    before = sequences(model)
    fresh = model.beside()
    building = fresh.take_over()
    fresh.apply(batch(change(number, of="new"), upto=number), building)
    model.close()
    return before, building, number


def until_done(work: Callable[[], object]) -> None:
    """As a driver that waits out an outage."""
    while True:
        try:
            work()
        except ReadModelUnavailable:
            continue
        return
