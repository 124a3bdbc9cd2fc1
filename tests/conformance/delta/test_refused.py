"""Rows that no table can hold: the batch fails as a whole, and the projection gives up only these."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from driftq.errors import InvalidArgument
from driftq.pipeline.dead_letters.driftq_letters import DriftqDeadLetters
from driftq.pipeline.dead_letters.projection import ProjectionDeadLetters
from driftq.pipeline.projection.delivery import RetryBudget, deliver
from driftq.sinks import Change, ProjectionDeadLetter, RefusedChange
from driftq.sinks.delta.model import DeltaReadModel
from driftq.testing.sinks.cast import ORDERS, batch, change, dead_letter, seen
from tests.harness import ServerProcess

BAD = [
    Change("order", "half \ud800", 1, "e-1", "{}"),
    Change("order", None, 1, "e-2", "{}"),  # type: ignore[arg-type] # A user's fold may return it.
]


@pytest.mark.clause("V8", "V3")
@pytest.mark.parametrize("bad", BAD, ids=["surrogate", "no id"])
def test_a_refused_row_takes_its_batch_with_it(model: DeltaReadModel, bad: Change) -> None:
    epoch = model.take_over()
    with pytest.raises((UnicodeEncodeError, InvalidArgument), match=r"surrogate|aggregate_id"):
        model.apply(batch(change(1), bad, upto=2, dead=(dead_letter(1),)), epoch)
    assert (seen(model), model.positions(), list(model.dead_letters())) == ({}, {}, [])


@pytest.mark.clause("V8", "V3", "V3a", "V3b", "V3d")
def test_a_projection_gives_up_the_refused_rows_and_no_other(model: DeltaReadModel, tmp_path: Path) -> None:
    def find(refused: Sequence[RefusedChange]) -> list[ProjectionDeadLetter]:
        return [dead_letter(int(each.change.event_id[2:]), error=each.error) for each in refused]

    epoch = model.take_over()
    with ServerProcess(tmp_path / "server") as server:
        server.client().post("/v1/topics", {"name": ORDERS.topic, "partitions": 1})
        topics = DriftqDeadLetters(f"http://127.0.0.1:{server.port}")
        deliver(
            model,
            batch(*(change(1, of=f"o-{number}") for number in range(5)), *BAD, upto=9),
            epoch,
            retry_budget=RetryBudget(retries=1, outage_s=20.0, sleep=lambda _: None),
            find_dead_letters=find,
            dead_letters=ProjectionDeadLetters(topics, identities={}, retries=1),
        )
        published = {each.dead_letter.offset for each in topics.read(ORDERS.topic)}
    assert published == {1, 2}
    assert {name for _, name in seen(model)} == {f"o-{number}" for number in range(5)}
    assert [dead.offset for dead in model.dead_letters()] == [1, 2]
    assert model.positions() == {ORDERS: 9}
