"""Ways of breaking delayed messages, each with the promise that it breaks."""

from collections.abc import Callable

import pytest

from driftq.core.decide import decide_due
from driftq.core.delivery_terms import TermsTable
from driftq.core.group import GroupPartition

Sabotage = Callable[[pytest.MonkeyPatch], None]


def delay_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("driftq.core.decide.produce._later", lambda deliver_at, wall: 0)


def end_delays_early(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "driftq.server.deliver.stage.decide_due",
        lambda state, *, now, wall: decide_due(state, now=now, wall=wall + 30),
    )


def end_delays_late(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "driftq.server.deliver.stage.decide_due",
        lambda state, *, now, wall: decide_due(state, now=now, wall=wall - 2_000),
    )


def forget_what_was_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    def forgetful(self: GroupPartition, ordinal: int) -> None:
        if ordinal >= self.floor:
            self.delayed -= 1

    monkeypatch.setattr(GroupPartition, "end_delay", forgetful)


def leave_delays_out_of_the_snapshot(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(TermsTable, "dump_delays", lambda self: b"")


DELAYS_CAUGHT: list[tuple[Sabotage, set[str]]] = [
    (delay_nothing, {"P9"}),
    (end_delays_early, {"P9"}),
    (end_delays_late, {"P9"}),
    (forget_what_was_passed_over, {"P9"}),
    (leave_delays_out_of_the_snapshot, {"P9"}),
]
