"""The read model with what only a real server does: it refuses a document by its mapping."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import pytest

from driftq.sinks import Change, ProjectionDeadLetter, RefusedChange, StagedCommit
from driftq.sinks.opensearch import OpenSearchSink
from driftq.testing.sinks.cast import ORDERS, seen, write


@pytest.mark.clause("V5", "V3", "V3a", "V3b")
def test_a_document_that_the_mapping_refuses_is_a_dead_letter_and_the_others_are_stored(
    sink: OpenSearchSink,
) -> None:
    model = sink.connect("orders")
    writer_epoch = model.take_over()
    model.store.put(
        model.require(writer_epoch).place, [Change("order", "first", 1, "e-1", '{"note":"a text"}')]
    )
    staged = model.open_batch(writer_epoch)
    report = write(
        staged,
        Change("order", "odd", 1, "e-2", '{"note":"a text"}'),
        Change("order", "odd", 2, "e-3", '{"note":{"is":"an object"}}'),
        Change("order", "good", 7, "e-4", '{"note":"another"}'),
    )

    def find(refused: Sequence[RefusedChange]) -> Iterable[ProjectionDeadLetter]:
        for change, error in refused:
            yield ProjectionDeadLetter("events.order", 0, 9, change.event_id, "write", error, change.state)

    staged.commit(StagedCommit(reports=[report], positions={ORDERS: 10}, find_dead_letters=find))
    [dead] = model.dead_letters()
    assert (dead.event_id, dead.value) == ("e-3", '{"note":{"is":"an object"}}')
    assert "mapper_parsing_exception" in dead.error or "document_parsing_exception" in dead.error
    assert {key[1]: sequence for key, (sequence, _) in seen(model).items()} == {
        "first": 1,
        "odd": 1,
        "good": 7,
    }
    assert model.positions() == {ORDERS: 10}
    model.close()
