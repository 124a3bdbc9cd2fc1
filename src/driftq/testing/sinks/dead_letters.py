"""Dead letters: stored with the position, published once, redriven under the guard."""

from __future__ import annotations

import pytest

from driftq.errors import ProjectionFenced, RelayFenced
from driftq.model.dead_letter import HandlerDeadLetter
from driftq.sinks import Application, ProjectionDeadLetter, ReadModel, TopicPartition
from driftq.sinks.dead_letters import HasOutbox, RedriveMark, RedrivesDeadLetters, dead_letter_id_of
from driftq.testing.sinks.cast import ORDERS, batch, change, dead_letter, seen
from driftq.testing.sinks.connected import NAME, Connect, ConnectedSuite

FIRST, AGAIN = "driftq/first", "driftq/again"


class DeadLettersSuite(ConnectedSuite):
    """What is kept, what the outbox has, what a redrive and a rebuild do."""

    def test_a_dead_letter_waits_in_the_outbox_once(self, model: ReadModel) -> None:
        epoch = model.take_over()
        dead = dead_letter(4)._replace(identity=FIRST, attempts=6, key="o-1", event_id="e4", stage="write")
        model.apply(batch(change(1), upto=4, dead=(dead,)), epoch)
        model.apply(batch(change(1), upto=4, dead=(dead._replace(error="told otherwise"),)), epoch)
        assert list(model.dead_letters()) == [dead]
        if not isinstance(model, HasOutbox):
            return
        outbox = model.outbox(epoch)
        [letter] = outbox.pending(limit=10)
        assert letter == HandlerDeadLetter(
            kind=letter.kind,
            handler=NAME,
            topic="events.order",
            partition=0,
            offset=4,
            stage="write",
            error="no JSON",
            reason="max_attempts",
            attempts=6,
            at=letter.at,
            key="o-1",
            value="{",
            event_id="e4",
            identity=FIRST,
        )
        assert letter.id == id_of(dead)
        outbox.mark_published([letter])
        assert outbox.pending(limit=10) == []
        model.apply(batch(upto=5, dead=(dead,)), epoch)  # A repeated batch publishes nothing a second time.
        assert outbox.pending(limit=10) == []
        assert list(model.dead_letters()) == [dead]

    def test_a_fenced_run_leaves_neither_position_nor_dead_letter(
        self, model: ReadModel, connect: Connect
    ) -> None:
        older = model.take_over()
        newer = connect().take_over()
        with pytest.raises(ProjectionFenced):
            model.apply(batch(upto=4, dead=(dead_letter(4),)), older)
        assert (list(model.dead_letters()), model.positions()) == ([], {})
        if isinstance(model, HasOutbox):
            with pytest.raises(RelayFenced):
                model.outbox(older).pending(limit=1)
            with pytest.raises(RelayFenced):
                model.outbox(older).mark_published([])
            assert model.outbox(newer).pending(limit=1) == []

    def test_a_recreated_topic_has_dead_letters_of_its_own(self, model: ReadModel) -> None:
        epoch = model.take_over()
        both = [dead_letter(4)._replace(identity=identity) for identity in (AGAIN, FIRST)]
        for dead in both:
            model.apply(batch(dead=(dead,)), epoch)
        assert list(model.dead_letters()) == both
        assert id_of(both[0]) != id_of(both[1])

    def test_pages_of_the_outbox_go_on_behind_the_last_one(self, model: ReadModel) -> None:
        epoch = model.take_over()
        if not isinstance(model, HasOutbox):
            return
        model.apply(batch(dead=tuple(dead_letter(offset) for offset in range(7))), epoch)
        outbox = model.outbox(epoch)
        found: list[HandlerDeadLetter] = []
        while page := outbox.pending(limit=3, after=found[-1] if found else None):
            found += page
        assert sorted(letter.offset for letter in found) == list(range(7))

    def test_a_redrive_applies_under_the_guard_and_fences_no_one(
        self, model: ReadModel, connect: Connect
    ) -> None:
        epoch = model.take_over()
        early, late = dead_letter(4), dead_letter(5)
        model.apply(batch(change(2), upto=5, dead=(early, late)), epoch)
        operator = connect()
        assert isinstance(operator, RedrivesDeadLetters)
        assert operator.redrive_marks() == {}
        assert operator.redrive(change(1), id_of(early), by="ada") is False
        assert seen(model)["order", "o-1"][0] == 2
        assert operator.redrive(change(3), id_of(late), by="bob") is True
        assert seen(model)["order", "o-1"][0] == 3
        assert marks(model) == {id_of(early): "ada", id_of(late): "bob"}
        model.apply(batch(change(4), upto=6), epoch)
        assert seen(model)["order", "o-1"][0] == 4
        assert marks(connect()) == {id_of(early): "ada", id_of(late): "bob"}

    def test_a_rebuild_redrives_what_it_applies_and_nothing_else(self, model: ReadModel) -> None:
        """It applies offset 1, gives up 2 again, and 3, which was redriven; 9 is behind its end."""
        epoch = model.take_over()
        dead = {offset: dead_letter(offset)._replace(identity=FIRST) for offset in (1, 2, 3, 9)}
        model.apply(batch(change(1), upto=9, dead=tuple(dead.values())), epoch)
        assert isinstance(model, RedrivesDeadLetters)
        model.redrive(change(2), id_of(dead[3]), by="ada")
        if isinstance(model, HasOutbox):
            model.outbox(epoch).mark_published(model.outbox(epoch).pending(limit=2))
        fresh = model.beside()
        rebuilding = fresh.take_over()
        fresh.apply(batch(change(1), dead=(dead[2], dead[3])), rebuilding)
        fresh.apply(Application(positions={TopicPartition(*ORDERS[:2], FIRST): 5}), rebuilding)
        model.swap(rebuilding)
        assert marks(model) == {id_of(dead[1]): "rebuild"}
        assert list(model.dead_letters()) == [dead[offset] for offset in (1, 2, 3, 9)]
        after = model.take_over()
        if isinstance(model, HasOutbox):
            assert len(model.outbox(after).pending(limit=10)) == 2

    def test_a_rebuild_that_is_given_up_publishes_nothing(self, model: ReadModel) -> None:
        model.take_over()
        fresh = model.beside()
        fresh.apply(batch(dead=(dead_letter(1),)), fresh.take_over())
        fresh.take_over()
        assert list(model.dead_letters()) == []
        if isinstance(model, HasOutbox):
            assert model.outbox(model.take_over()).pending(limit=1) == []


def id_of(dead: ProjectionDeadLetter) -> str:
    return dead_letter_id_of(NAME, dead)


def marks(model: ReadModel) -> dict[str, str]:
    """Who redrove which."""
    assert isinstance(model, RedrivesDeadLetters)
    assert all(isinstance(mark, RedriveMark) for mark in model.redrive_marks().values())
    return {id: mark.redriven_by for id, mark in model.redrive_marks().items()}
