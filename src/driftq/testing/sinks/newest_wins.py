"""Whatever order rows come in, and however often: what is read is the newest of each aggregate."""

from __future__ import annotations

from random import Random

import pytest

from driftq.errors import InvalidArgument, ReadModelNotFound
from driftq.model import Aggregate
from driftq.sinks import Change, ReadModel, ReadModelSink
from driftq.testing.sinks.cast import ORDERS, batch, change, dead_letter, seen, settled
from driftq.testing.sinks.connected import NAME, Connect, ConnectedSuite

_ROUNDS = 8


class NewestWinsSuite(ConnectedSuite):
    """Shuffled, doubled and replayed input; deletions; keys and states as they are."""

    def test_the_newest_sequence_wins_in_whatever_order_it_comes(self, model: ReadModel) -> None:
        writer_epoch = model.take_over()
        model.apply(batch(change(2), change(1, of="o-2"), upto=4), writer_epoch)
        model.apply(batch(change(1), change(5, of="o-2"), upto=9), writer_epoch)
        assert seen(model) == {("order", "o-1"): (2, {"at": 2}), ("order", "o-2"): (5, {"at": 5})}
        assert settled(model) == {("order", "o-1"): (2, "order/o-1/2"), ("order", "o-2"): (5, "order/o-2/5")}
        assert model.positions() == {ORDERS: 9}

    def test_a_late_event_does_not_bring_back_what_was_deleted(self, model: ReadModel) -> None:
        writer_epoch = model.take_over()
        model.apply(batch(change(3, deleted=True)), writer_epoch)
        model.apply(batch(change(2)), writer_epoch)
        assert seen(model) == {}
        assert settled(model) == {("order", "o-1"): (3, "order/o-1/3")}
        model.apply(batch(change(4)), writer_epoch)
        assert seen(model) == {("order", "o-1"): (4, {"at": 4})}

    def test_a_range_that_was_applied_before_changes_nothing(
        self, model: ReadModel, connect: Connect
    ) -> None:
        writer_epoch = model.take_over()
        first = batch(change(1), change(7, of="o-2"), upto=7, dead=(dead_letter(3),))
        for application in (first, batch(change(2), upto=8)):
            model.apply(application, writer_epoch)
        before = (seen(model), settled(model), model.positions(), list(model.dead_letters()))
        again = connect()
        model.apply(first, writer_epoch)
        again.apply(first, again.take_over())
        assert (seen(again), settled(again), again.positions(), list(again.dead_letters())) == before

    def test_of_two_events_with_one_sequence_the_first_stays(self, model: ReadModel) -> None:
        writer_epoch = model.take_over()
        model.apply(batch(change(1)), writer_epoch)
        model.apply(batch(Change("order", "o-1", 1, "another", '"other"')), writer_epoch)
        assert settled(model) == {("order", "o-1"): (1, "order/o-1/1")}
        assert seen(model) == {("order", "o-1"): (1, {"at": 1})}

    def test_keys_are_kept_byte_for_byte_and_states_as_they_are(self, model: ReadModel) -> None:
        names = ["a", "A", "a ", " a", "é", "e\u0301", "", "a\tb", "a\nb", "a\\b", "\\N", "日本", "a/b", "😀"]
        names += ["'\"", "a:b", "*", "{a}", "a%2Fb", "_a", "x" * 500]
        states = ['{"b":1,"a":[]}', "null", "1.50", '"\\u0000\\t"', '"a\\\\tb"', '"tab\\u0009"', "[]"]
        changes = [
            Change(kind, name, 1, f"{kind}/{name}", states[at % len(states)])
            for kind in ("order", "Order")
            for at, name in enumerate(names)
        ]
        model.apply(batch(*changes), model.take_over())
        assert set(seen(model)) == {(kind, name) for kind in ("order", "Order") for name in names}
        found = model.current([Aggregate("order", name) for name in names])
        assert {row.state for row in found.values()} == set(states)
        assert [(row.aggregate_type, row.aggregate_id) for row in model.rows()] == sorted(
            ((kind, name) for kind in ("order", "Order") for name in names),
            key=lambda key: (key[0].encode(), key[1].encode()),
        )

    @pytest.mark.parametrize("seed", range(_ROUNDS))
    def test_shuffled_doubled_and_replayed_batches_converge(self, sink: ReadModelSink, seed: int) -> None:
        chance = Random(seed)
        events = [
            change(sequence, of=f"o-{which}", deleted=sequence % 4 == 0)
            for which in range(2)
            for sequence in range(1, chance.randint(1, 5) + 1)
        ]
        mixed = events + chance.choices(events, k=chance.randint(0, 3))
        chance.shuffle(mixed)
        model = sink.connect("mixed").beside()
        writer_epoch = model.take_over()
        for event in mixed:
            model.apply(batch(event), writer_epoch)  # One by one: no order inside a batch could help.
        newest = {(event.aggregate_type, event.aggregate_id): event for event in sorted(events)}
        assert settled(model) == {key: (row.sequence_number, row.event_id) for key, row in newest.items()}
        assert set(seen(model)) == {key for key, row in newest.items() if row.state is not None}
        model.close()

    def test_many_rows_at_once_and_many_small_batches(self, model: ReadModel) -> None:
        writer_epoch = model.take_over()
        model.apply(batch(*(change(1, of=f"o-{number}") for number in range(3000)), upto=1), writer_epoch)
        for sequence in range(2, 24):
            model.apply(
                batch(*(change(sequence, of=f"o-{number}") for number in range(50)), upto=sequence),
                writer_epoch,
            )
        found = seen(model)
        assert len(found) == 3000
        assert (found["order", "o-49"][0], found["order", "o-50"][0]) == (23, 1)

    def test_dead_letters_are_kept_with_stage_and_error_whatever_they_hold(self, model: ReadModel) -> None:
        writer_epoch = model.take_over()
        odd = (dead_letter(1), dead_letter(0, error="a\x00b", value="c\x00d"), dead_letter(2, value=None))
        model.apply(batch(upto=2, dead=odd), writer_epoch)
        model.apply(batch(dead=(dead_letter(1, error="told later"),)), writer_epoch)
        found = list(model.dead_letters())
        assert [(dead.offset, dead.stage) for dead in found] == [(0, "decode"), (1, "decode"), (2, "decode")]
        assert found[1] == dead_letter(1)
        assert found[2].value is None

    def test_a_name_that_was_never_written_is_reported_and_odd_names_are_refused(
        self, sink: ReadModelSink, model: ReadModel
    ) -> None:
        assert model.positions() == {}
        with pytest.raises(ReadModelNotFound, match=NAME):
            list(model.rows())
        for name in ("", "Orders", "a-b", "1a", "a__b", "driftq_a", "a" * 41, "a;b"):
            with pytest.raises(InvalidArgument):
                sink.connect(name)
