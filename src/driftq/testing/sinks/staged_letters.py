"""Dead letters that tasks stage: as complete as the driver's own, durable before the position moves."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from driftq.errors import ReadModelUnavailable, RelayFenced, Unavailable
from driftq.sinks import (
    AttemptReport,
    ProjectionDeadLetter,
    StagedBatch,
    StagedCommit,
    StagedReadModel,
)
from driftq.sinks.dead_letters import HasOutbox, dead_letter_id_of
from driftq.testing.sinks.cast import ORDERS, batch, dead_letter, write
from driftq.testing.sinks.connected import NAME, Connect, ConnectedSuite

IDENTITY = "driftq/server/topic"


class StagedLettersSuite(ConnectedSuite):
    """Ids, odd texts, and the topic before the position."""

    def test_a_staged_dead_letter_has_the_id_that_the_driver_would_give_it(
        self, staged_model: StagedReadModel, connect: Connect
    ) -> None:
        epoch = staged_model.take_over()
        for attempt in (1, 2):  # A batch that is repeated.
            staged = staged_model.open_batch(epoch)
            report = stage(staged, given_up(4), given_up(5), attempt=attempt)
            staged.commit(StagedCommit(reports=[report], positions={ORDERS: 5}))
        staged_model.apply(batch(dead=(given_up(4, error="told otherwise"),)), epoch)
        assert list(staged_model.dead_letters()) == [given_up(4), given_up(5)]
        if not isinstance(staged_model, HasOutbox):
            return
        outbox = staged_model.outbox(epoch)
        waiting = outbox.pending(limit=10)
        assert {letter.id for letter in waiting} == {dead_letter_id_of(NAME, given_up(n)) for n in (4, 5)}
        assert {(letter.identity, letter.attempts, letter.key) for letter in waiting} == {
            (IDENTITY, 6, "o-1")
        }
        outbox.mark_published(waiting)
        assert outbox.pending(limit=10) == []
        connect().take_over()
        with pytest.raises(RelayFenced):
            outbox.pending(limit=10)

    def test_texts_that_no_target_can_store_are_escaped_and_not_refused(
        self, staged_model: StagedReadModel
    ) -> None:
        staged = staged_model.open_batch(staged_model.take_over())
        odd = given_up(1)._replace(error="a\x00b", value="c\x00\ud800", key="k\x00", event_id="e\ud800")
        staged.commit(StagedCommit(reports=[stage(staged, odd)], positions={ORDERS: 1}))
        (stored,) = staged_model.dead_letters()
        assert (stored.value, stored.key) == ("c\\x00\\ud800", "k\\x00")
        assert "\x00" not in stored.error
        assert staged_model.positions() == {ORDERS: 1}

    def test_without_an_outbox_the_topic_has_the_dead_letters_before_the_position_moves(
        self, staged_model: StagedReadModel
    ) -> None:
        model = staged_model
        if isinstance(model, HasOutbox):
            return  # The letters are rows of the transaction that moves the position.
        staged = model.open_batch(model.take_over())
        many = [given_up(number) for number in range(1_200)]
        report = stage(staged, *many)
        published: list[ProjectionDeadLetter] = []
        pages: list[int] = []

        def away(page: Sequence[ProjectionDeadLetter]) -> None:
            raise ReadModelUnavailable("dlq.events.order", cause="the broker is away")

        def publish(page: Sequence[ProjectionDeadLetter]) -> None:
            assert model.positions() == {}
            pages.append(len(page))
            published.extend(page)

        commit = StagedCommit(reports=[report], positions={ORDERS: 1_199}, publish_dead_letters=away)
        with pytest.raises(Unavailable):
            staged.commit(commit)
        assert (model.positions(), list(model.dead_letters())) == ({}, [])
        staged.commit(
            StagedCommit(reports=[report], positions={ORDERS: 1_199}, publish_dead_letters=publish),
        )
        assert sorted(published, key=lambda dead: dead.offset) == many
        assert max(pages) <= 500
        assert model.positions() == {ORDERS: 1_199}
        assert len(list(model.dead_letters())) == 1_200


def given_up(offset: int, *, error: str = "no JSON") -> ProjectionDeadLetter:
    """As a task completes it."""
    dead = dead_letter(offset, error=error)
    return dead._replace(identity=IDENTITY, attempts=6, key="o-1", event_id=f"e{offset}", stage="fold")


def stage(batch: StagedBatch, *dead: ProjectionDeadLetter, attempt: int = 1) -> AttemptReport:
    return write(batch, dead=dead, attempt=attempt)
