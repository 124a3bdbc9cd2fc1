"""One run writes at a time, and a rebuild has no readers until it is swapped in."""

from __future__ import annotations

import threading

import pytest

from driftq.errors import ProjectionFenced, ReadModelSwapped
from driftq.model import Aggregate
from driftq.sinks import Application, ReadModel, TopicPartition
from driftq.testing.sinks.cast import ORDERS, batch, change, dead_letter, out_of_order, seen, settled
from driftq.testing.sinks.connected import Connect, ConnectedSuite


class WriterEpochsSuite(ConnectedSuite):
    """Fencing, waiting events, rebuild and swap, positions."""

    def test_a_run_that_was_replaced_can_write_nothing(self, model: ReadModel, connect: Connect) -> None:
        zombie = model.take_over()
        model.apply(batch(change(1), upto=1), zombie)
        heir = connect()
        writer_epoch = heir.take_over()
        with pytest.raises(ProjectionFenced) as fenced:
            model.apply(batch(change(9), upto=9), zombie)
        assert (fenced.value.epoch, fenced.value.current) == (zombie.epoch, writer_epoch.epoch)
        heir.apply(batch(change(2), upto=2), writer_epoch)
        assert seen(heir) == {("order", "o-1"): (2, {"at": 2})}
        assert heir.positions() == {ORDERS: 2}

    def test_of_many_that_start_at_once_the_last_one_writes(self, connect: Connect) -> None:
        models = [connect() for _ in range(4)]
        written: list[int] = []

        def run(model: ReadModel) -> None:
            writer_epoch = model.take_over()
            for sequence in range(1, 6):
                try:
                    model.apply(
                        batch(change(sequence, of=f"o-{writer_epoch.epoch}"), upto=sequence), writer_epoch
                    )
                except ProjectionFenced:
                    return
            written.append(writer_epoch.epoch)

        threads = [threading.Thread(target=run, args=(model,)) for model in models]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        assert 4 in written
        assert seen(models[0])["order", "o-4"] == (5, {"at": 5})
        assert models[0].take_over().epoch == 5

    def test_what_waits_is_kept_until_its_aggregate_has_reached_it(self, model: ReadModel) -> None:
        writer_epoch = model.take_over()
        late = [out_of_order(3), out_of_order(4)]
        other = out_of_order(3, of="o-2", offset=5)
        aggregates = [Aggregate("order", "o-1"), Aggregate("order", "o-2")]
        for _ in range(2):
            model.apply(Application(waiting=[*late, other], positions={ORDERS: 5}), writer_epoch)
        assert model.waiting(aggregates) == [*late, other]
        model.apply(Application(changes=[change(3)]), writer_epoch)
        assert model.waiting(aggregates) == [late[1], other]
        model.apply(Application(changes=[change(4)]), writer_epoch)
        assert model.waiting(aggregates[:1]) == []

    def test_a_rebuild_serves_no_reader_until_it_takes_the_place_of_the_old(
        self, model: ReadModel, connect: Connect
    ) -> None:
        live = model.take_over()
        model.apply(batch(change(1), change(1, of="gone"), upto=9, dead=(dead_letter(1),)), live)
        fresh = connect().beside()
        building = fresh.take_over()
        fresh.apply(batch(change(3), upto=5, dead=(dead_letter(2),)), building)
        model.apply(batch(change(2), upto=11), live)
        assert seen(model)["order", "o-1"] == (2, {"at": 2})

        connect().swap(building)
        assert seen(connect()) == {("order", "o-1"): (3, {"at": 3})}
        assert model.positions() == {ORDERS: 5}
        assert [dead.offset for dead in model.dead_letters()] == [1, 2]
        with pytest.raises(ReadModelSwapped):
            model.apply(batch(change(9), upto=12), live)
        model.apply(batch(change(4), upto=12), model.take_over())
        assert seen(model) == {("order", "o-1"): (4, {"at": 4})}

    def test_a_rebuild_that_was_given_up_leaves_nothing_to_the_next(
        self, model: ReadModel, connect: Connect
    ) -> None:
        model.apply(batch(change(1)), model.take_over())
        given_up = model.beside()
        old = given_up.take_over()
        given_up.apply(batch(change(8, of="left over"), upto=8, dead=(dead_letter(8),)), old)
        fresh = connect().beside()
        building = fresh.take_over()
        with pytest.raises(ProjectionFenced):
            given_up.apply(batch(change(9)), old)
        with pytest.raises(ProjectionFenced):
            model.swap(old)
        fresh.apply(
            Application(changes=[change(2)], positions={TopicPartition("events.order", 1): 0}), building
        )
        model.swap(building)
        assert settled(model) == {("order", "o-1"): (2, "order/o-1/2")}
        assert model.positions() == {TopicPartition("events.order", 1): 0}
        assert list(model.dead_letters()) == []
        for _ in range(2):  # Names of tables and indexes are free again.
            model.swap(model.beside().take_over())
        assert seen(model) == {}

    def test_positions_of_topics_with_the_same_name_stand_side_by_side(
        self, model: ReadModel, connect: Connect
    ) -> None:
        writer_epoch = model.take_over()
        first, again = (TopicPartition("events.order", 0, f"driftq/folder/{number}") for number in (1, 2))
        model.apply(Application(positions={first: 900}), writer_epoch)
        model.apply(Application(positions={again: 3}), writer_epoch)
        assert connect().positions() == {first: 900, again: 3}
        fresh = connect().beside()
        building = fresh.take_over()
        fresh.apply(Application(positions={again: 7}), building)
        model.swap(building)
        assert connect().positions() == {again: 7}
