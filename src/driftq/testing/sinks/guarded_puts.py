"""Single rows that handlers put into a read model: guarded, by any number of writers, fencing nobody."""

from __future__ import annotations

import threading

import pytest

from driftq.errors import ReadModelNotFound
from driftq.sinks import GuardedReadModel, ReadModel
from driftq.testing.sinks.cast import batch, change, seen, settled
from driftq.testing.sinks.connected import Connect, ConnectedSuite

_SEQUENCES = 20
_WRITERS = 3


class GuardedPutsSuite(ConnectedSuite):
    """For a sink whose read models are a `GuardedReadModel`: handlers can write to it."""

    @pytest.fixture
    def guarded(self, model: ReadModel) -> GuardedReadModel:
        assert isinstance(model, GuardedReadModel)
        return model

    def test_a_put_replaces_a_row_by_a_newer_one_only(self, guarded: GuardedReadModel) -> None:
        guarded.take_over()
        guarded.put([change(2)])
        guarded.put([change(1)])
        guarded.put([change(3, of="o-2")])
        assert seen(guarded) == {("order", "o-1"): (2, {"at": 2}), ("order", "o-2"): (3, {"at": 3})}
        guarded.put([change(4, deleted=True)])
        guarded.put([change(3)])
        assert seen(guarded) == {("order", "o-2"): (3, {"at": 3})}
        assert settled(guarded)["order", "o-1"] == (4, "order/o-1/4")

    def test_a_put_before_any_take_over_finds_no_read_model(self, guarded: GuardedReadModel) -> None:
        with pytest.raises(ReadModelNotFound):
            guarded.put([change(1)])

    def test_a_put_fences_no_run(self, guarded: GuardedReadModel, connect: Connect) -> None:
        writer_epoch = guarded.take_over()
        other = connect()
        assert isinstance(other, GuardedReadModel)
        other.put([change(2)])
        guarded.apply(batch(change(1), change(1, of="o-2"), upto=3), writer_epoch)
        assert seen(guarded) == {("order", "o-1"): (2, {"at": 2}), ("order", "o-2"): (1, {"at": 1})}

    def test_many_writers_at_once_leave_the_newest(self, guarded: GuardedReadModel, connect: Connect) -> None:
        guarded.take_over()
        failures: list[BaseException] = []

        def write(first: int, model: ReadModel) -> None:
            assert isinstance(model, GuardedReadModel)
            try:
                for number in range(first, _SEQUENCES, _WRITERS):
                    model.put([change(number)])
            except BaseException as failure:  # noqa: BLE001 - The test's own thread shows it.
                failures.append(failure)

        threads = [threading.Thread(target=write, args=(first + 1, connect())) for first in range(_WRITERS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert failures == []
        assert seen(guarded) == {("order", "o-1"): (_SEQUENCES - 1, {"at": _SEQUENCES - 1})}
