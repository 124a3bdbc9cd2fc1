"""A run that is killed before any of its calls to the server: its successor ends where it would have."""

import os
import signal
from collections.abc import Callable

import pytest

from driftq.sinks import Application, Change, TopicPartition
from driftq.sinks.documents.control import read_control
from driftq.sinks.terminusdb import TerminusSink
from driftq.transport.blocking import BlockingConnection
from tests.conformance.terminusdb.conftest import NAME, change, readers_see
from tests.services_terminusdb import create_database, drop_database

ORDERS = TopicPartition("events.order", 0)
BATCHES: list[list[Change]] = [
    [change(1), change(1, of="o-2")],
    [change(2), change(1, of="o-3"), change(2, of="o-2", deleted=True)],
    [change(3, of="o-3"), change(4)],
]
STATES: list[dict[str, int]] = [{}]
for _batch in BATCHES:
    STATES.append(STATES[-1] | {row.aggregate_id: row.sequence_number for row in _batch})


def run(url: str) -> None:
    """Two batches, a rebuild of them that is swapped in, and one batch more."""
    sink = TerminusSink(url)
    model = sink.connect(NAME)
    epoch = model.take_over()
    for offset in range(model.positions().get(ORDERS, -1) + 1, 2):
        model.apply(Application(changes=BATCHES[offset], positions={ORDERS: offset}), epoch)
    beside = model.beside()
    rebuilding = beside.take_over()
    for offset in range(model.positions()[ORDERS] + 1):
        beside.apply(Application(changes=BATCHES[offset], positions={ORDERS: offset}), rebuilding)
    model.swap(rebuilding)
    epoch = model.take_over()
    for offset in range(model.positions()[ORDERS] + 1, 3):
        model.apply(Application(changes=BATCHES[offset], positions={ORDERS: offset}), epoch)


def killed_before_call(number: int, work: Callable[[], None]) -> bool:
    """Run it in a process that dies by SIGKILL before this call; False if it has ended before."""
    child = os.fork()
    if not child:
        left = number
        send = BlockingConnection.send

        def counted(*args: object, **named: object) -> object:
            nonlocal left
            if not left:
                os.kill(os.getpid(), signal.SIGKILL)
            left -= 1
            return send(*args, **named)  # type: ignore[arg-type]

        BlockingConnection.send = counted  # type: ignore[assignment,method-assign]
        try:
            work()
        except BaseException:  # noqa: BLE001 - the parent sees the status.
            os._exit(2)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    assert os.WIFSIGNALED(status) or os.WEXITSTATUS(status) == 0
    return os.WIFSIGNALED(status)


@pytest.mark.clause("V7", "X3")
def test_a_run_killed_between_any_two_calls_is_finished_by_the_next(terminus_url: str) -> None:
    number = 0
    seen: list[dict[str, int]] = []
    while True:
        url = create_database(terminus_url)
        if not killed_before_call(number, lambda url=url: run(url)):  # type: ignore[misc]
            drop_database(url)
            break
        seen.append(readers_see(url))
        assert seen[-1] in STATES, f"killed before call {number}"
        run(url)
        assert readers_see(url) == STATES[-1], f"killed before call {number}"
        model = TerminusSink(url).connect(NAME)
        assert {row.aggregate_id: row.sequence_number for row in model.rows()} == {"o-1": 4, "o-3": 3}
        assert model.positions() == {ORDERS: 2}
        assert read_control(model.store).retired == ()
        drop_database(url)
        number += 1
    assert number > 40
    assert all(state in seen for state in STATES)
