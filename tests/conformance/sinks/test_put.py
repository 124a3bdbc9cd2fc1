"""Single rows that handlers put into a read model: guarded, by any number of writers, fencing nobody."""

from __future__ import annotations

import threading

import pytest

from driftq.errors import ReadModelNotFound
from driftq.sinks import GuardedReadModel, ReadModel
from tests.conformance.sinks.cast import batch, change, seen, settled
from tests.conformance.sinks.conftest import Connect


@pytest.fixture
def guarded(model: ReadModel) -> GuardedReadModel:
    assert isinstance(model, GuardedReadModel)
    return model


@pytest.mark.clause("K4", "V1", "V2")
def test_a_row_is_replaced_by_a_newer_one_only(guarded: GuardedReadModel) -> None:
    guarded.take_over()
    guarded.put([change(2)])
    guarded.put([change(1)])
    guarded.put([change(3, of="o-2")])
    assert seen(guarded) == {("order", "o-1"): (2, {"at": 2}), ("order", "o-2"): (3, {"at": 3})}
    guarded.put([change(4, deleted=True)])
    guarded.put([change(3)])
    assert seen(guarded) == {("order", "o-2"): (3, {"at": 3})}
    assert settled(guarded)["order", "o-1"] == (4, "order/o-1/4")


def test_what_nobody_has_taken_over_is_not_found(guarded: GuardedReadModel) -> None:
    with pytest.raises(ReadModelNotFound):
        guarded.put([change(1)])


@pytest.mark.clause("K4")
def test_a_put_fences_no_run(guarded: GuardedReadModel, connect: Connect) -> None:
    writer_epoch = guarded.take_over()
    other = connect()
    assert isinstance(other, GuardedReadModel)
    other.put([change(2)])
    guarded.apply(batch(change(1), change(1, of="o-2"), upto=3), writer_epoch)
    assert seen(guarded) == {("order", "o-1"): (2, {"at": 2}), ("order", "o-2"): (1, {"at": 1})}


@pytest.mark.clause("V1")
def test_many_writers_at_once_leave_the_newest(guarded: GuardedReadModel, connect: Connect) -> None:
    guarded.take_over()
    failures: list[BaseException] = []

    def write(numbers: list[int], model: ReadModel) -> None:
        assert isinstance(model, GuardedReadModel)
        try:
            for number in numbers:
                model.put([change(number)])
        except BaseException as failure:  # noqa: BLE001 - Shown by the test's own thread.
            failures.append(failure)

    threads = [
        threading.Thread(target=write, args=(list(range(start, 20, 3)), connect())) for start in (1, 2, 3)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert seen(guarded) == {("order", "o-1"): (19, {"at": 19})}
