"""Dead letters that tasks stage: as complete as the driver's own, stored or published before the position."""

import pickle
from collections.abc import Sequence

import pytest

from driftq.errors import ReadModelUnavailable, RelayFenced, Unavailable
from driftq.sinks import (
    AttemptReport,
    ParquetSink,
    ProjectionDeadLetter,
    ReadModel,
    ReadModelSink,
    StagedBatch,
    StagedCommit,
    StagedReadModel,
)
from driftq.sinks.dead_letters import HasOutbox, dead_letter_id_of
from tests.conformance.sinks.cast import ORDERS, batch, dead_letter
from tests.conformance.sinks.conftest import NAME, Connect

IDENTITY = "driftq/server/topic"


@pytest.fixture(params=["postgres", "parquet"])
def sink(request: pytest.FixtureRequest, any_sink: dict[str, ReadModelSink]) -> ReadModelSink:
    return any_sink[request.param]


@pytest.fixture
def staged_model(model: ReadModel) -> StagedReadModel:
    assert isinstance(model, StagedReadModel)
    return model


def given_up(offset: int, *, error: str = "no JSON") -> ProjectionDeadLetter:
    """As a task completes it."""
    dead = dead_letter(offset, error=error)
    return dead._replace(identity=IDENTITY, attempts=6, key="o-1", event_id=f"e{offset}", stage="fold")


def stage(staged: StagedBatch, *dead: ProjectionDeadLetter, attempt: int = 1) -> AttemptReport:
    writer = pickle.loads(pickle.dumps(staged.writer)).begin(task=0, attempt=attempt)
    try:
        writer.write_dead_letters(dead)
        return writer.finish()
    finally:
        writer.close()


@pytest.mark.clause("V10", "V3", "V3b", "V3d", "K10")
def test_a_staged_dead_letter_has_the_id_that_the_driver_would_give_it(
    staged_model: StagedReadModel, connect: Connect
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
    assert {(letter.identity, letter.attempts, letter.key) for letter in waiting} == {(IDENTITY, 6, "o-1")}
    outbox.mark_published(waiting)
    assert outbox.pending(limit=10) == []
    connect().take_over()
    with pytest.raises(RelayFenced):
        outbox.pending(limit=10)


@pytest.mark.clause("V3", "V3d")
def test_texts_that_no_target_can_store_are_escaped_and_not_refused(staged_model: StagedReadModel) -> None:
    staged = staged_model.open_batch(staged_model.take_over())
    odd = given_up(1)._replace(error="a\x00b", value="c\x00\ud800", key="k\x00", event_id="e\ud800")
    staged.commit(StagedCommit(reports=[stage(staged, odd)], positions={ORDERS: 1}))
    (stored,) = staged_model.dead_letters()
    assert (stored.value, stored.key) == ("c\\x00\\ud800", "k\\x00")
    assert "\x00" not in stored.error
    assert staged_model.positions() == {ORDERS: 1}


@pytest.mark.clause("V10", "V3", "V3d", "K10")
def test_without_an_outbox_the_topic_has_the_dead_letters_before_the_position_moves(
    any_sink: dict[str, ReadModelSink],
) -> None:
    sink = any_sink["parquet"]
    assert isinstance(sink, ParquetSink)
    model = sink.connect(NAME)
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
    assert published == many
    assert max(pages) <= 500
    assert model.positions() == {ORDERS: 1_199}
    assert len(list(model.dead_letters())) == 1_200
