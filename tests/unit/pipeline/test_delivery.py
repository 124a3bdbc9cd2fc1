"""Bringing batches into read models without Spark: outages, refused rows, and runs that were replaced."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from driftq.errors import DatabaseUnavailable, ProjectionFenced
from driftq.pipeline.dead_letters.driftq_letters import DriftqDeadLetters
from driftq.pipeline.dead_letters.projection import ProjectionDeadLetters
from driftq.pipeline.projection.delivery import RetryBudget, deliver
from driftq.sinks import (
    Application,
    Change,
    ProjectionDeadLetter,
    RefusedChange,
    SqliteSink,
    TopicPartition,
    WriterEpoch,
)
from driftq.sinks.sql_model import SqlReadModel

PLACE = TopicPartition("orders", 0)


class Moody(SqlReadModel):
    """A read model that fails as it is told to, before anything is written."""

    fail: Callable[[Application], None] = staticmethod(lambda _: None)
    calls = 0

    def apply(self, application: Application, writer_epoch: WriterEpoch) -> None:
        self.calls += 1
        self.fail(application)
        super().apply(application, writer_epoch)


@pytest.fixture
def model(tmp_path: Path) -> Moody:
    made = SqliteSink(f"{tmp_path}/rows.db").connect("orders")
    made.__class__ = Moody
    assert isinstance(made, Moody)
    return made


def batch(count: int) -> Application:
    changes = [Change("order", f"o-{number}", 1, f"e-{number}", "{}") for number in range(count)]
    return Application(changes=changes, positions={PLACE: count - 1})


def retry_budget(retries: int = 2, *, outage_s: float = 20.0) -> RetryBudget:
    return RetryBudget(retries=retries, outage_s=outage_s, sleep=lambda _: None)


def find_dead_letters(refused: Sequence[RefusedChange]) -> list[ProjectionDeadLetter]:
    return [
        ProjectionDeadLetter(
            "orders", 0, int(change.aggregate_id[2:]), change.event_id, "write", why, change.state
        )
        for change, why in refused
    ]


def dead_letters() -> ProjectionDeadLetters:
    """SQLite has an outbox, so nothing is published here."""
    return ProjectionDeadLetters(DriftqDeadLetters("http://127.0.0.1:1"), identities={}, retries=2)


@pytest.mark.clause("V3", "V3c")
def test_an_outage_costs_no_retry_and_no_event(model: Moody) -> None:
    writer_epoch = model.take_over()
    times = iter(range(20))

    def away(_: Application) -> None:
        if next(times) < 15:
            raise DatabaseUnavailable("there", cause="gone")

    model.fail = away
    deliver(
        model,
        batch(3),
        writer_epoch,
        retry_budget=retry_budget(retries=0),
        find_dead_letters=find_dead_letters,
        dead_letters=dead_letters(),
    )
    assert (len(list(model.rows())), model.positions()) == (3, {PLACE: 2})
    assert list(model.dead_letters()) == []


@pytest.mark.clause("V3", "V3c")
def test_an_outage_that_lasts_is_told_and_the_position_stays(model: Moody) -> None:
    def away(_: Application) -> None:
        raise DatabaseUnavailable("there", cause="gone")

    writer_epoch = model.take_over()
    model.fail = away
    with pytest.raises(DatabaseUnavailable):
        deliver(
            model,
            batch(3),
            writer_epoch,
            retry_budget=retry_budget(outage_s=0.0),
            find_dead_letters=find_dead_letters,
            dead_letters=dead_letters(),
        )
    assert model.positions() == {}


@pytest.mark.clause("V3", "V3a", "V3b")
def test_rows_that_are_refused_become_dead_letters_and_all_others_are_kept(model: Moody) -> None:
    writer_epoch = model.take_over()

    def picky(application: Application) -> None:
        if bad := [row for row in application.changes if row.aggregate_id in ("o-3", "o-17")]:
            raise ValueError(f"cannot store {bad[0].aggregate_id}")

    model.fail = picky
    deliver(
        model,
        batch(20),
        writer_epoch,
        retry_budget=retry_budget(),
        find_dead_letters=find_dead_letters,
        dead_letters=dead_letters(),
    )
    assert {row.aggregate_id for row in model.rows()} == {f"o-{n}" for n in range(20)} - {"o-3", "o-17"}
    assert [(dead.offset, dead.stage, dead.error) for dead in model.dead_letters()] == [
        (3, "write", "ValueError: cannot store o-3"),
        (17, "write", "ValueError: cannot store o-17"),
    ]
    assert model.positions() == {PLACE: 19}


@pytest.mark.clause("V3", "V3a")
def test_a_refusal_is_tried_again_before_anything_is_buried(model: Moody) -> None:
    writer_epoch = model.take_over()
    times = iter(range(9))

    def twice(_: Application) -> None:
        if next(times) < 2:
            raise ValueError("not now")

    model.fail = twice
    deliver(
        model,
        batch(2),
        writer_epoch,
        retry_budget=retry_budget(retries=2),
        find_dead_letters=find_dead_letters,
        dead_letters=dead_letters(),
    )
    assert (model.calls, list(model.dead_letters())) == (3, [])


@pytest.mark.clause("Z6")
def test_a_run_that_was_replaced_ends_at_once(model: Moody) -> None:
    writer_epoch = model.take_over()
    model.take_over()
    with pytest.raises(ProjectionFenced):
        deliver(
            model,
            batch(2),
            writer_epoch,
            retry_budget=retry_budget(),
            find_dead_letters=find_dead_letters,
            dead_letters=dead_letters(),
        )
    assert model.calls == 1


@pytest.mark.clause("V3", "O1")
def test_dead_letters_and_outages_are_counted_for_the_metrics(model: Moody) -> None:
    counts: Counter[str] = Counter()
    writer_epoch = model.take_over()
    times = iter(range(100))

    def moody(application: Application) -> None:
        if next(times) == 0:
            raise DatabaseUnavailable("there", cause="gone")
        if any(change.aggregate_id == "o-1" for change in application.changes):
            raise ValueError("not this one")

    model.fail = moody
    deliver(
        model,
        batch(3),
        writer_epoch,
        retry_budget=replace(retry_budget(retries=1), counts=counts),
        find_dead_letters=find_dead_letters,
        dead_letters=ProjectionDeadLetters(
            DriftqDeadLetters("http://127.0.0.1:1"), identities={}, retries=1, counts=counts
        ),
    )
    assert counts == {"outages": 1, "dead": 1}
    (letter,) = model.dead_letters()
    assert (letter.stage, letter.error) == ("write", "ValueError: not this one")
