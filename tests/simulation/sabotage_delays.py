"""Ways of breaking delayed messages, each with the promise that it breaks."""

from collections.abc import Callable

import pytest

from driftq.core.decide import decide_due

Sabotage = Callable[[pytest.MonkeyPatch], None]


def delay_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("driftq.core.decide.produce._later", lambda deliver_at, wall: 0)


def end_delays_early(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "driftq.server.deliver.stage.decide_due",
        lambda state, *, now, wall: decide_due(state, now=now, wall=wall + 30),
    )


DELAYS_CAUGHT: list[tuple[Sabotage, set[str]]] = [
    (delay_nothing, {"P9"}),
    (end_delays_early, {"P9"}),
]
