"""Owners on a disk that fails and a machine that loses power: a confirmed owner stays; no name has two."""

from __future__ import annotations

import errno
import logging
from random import Random
from typing import Any

import pytest

from driftq.core.decide.owners import OwnedName, owner_of
from driftq.core.owners import OwnedKind
from driftq.errors import NotFound, Unavailable
from driftq.server.requests import OwnRequest
from driftq.testing.broker import SimBroker
from driftq.testing.canonical import canonical, differences, fold_folder

TENANTS = ("acme", "globex", "initech")
THINGS = [
    OwnedName(kind, f"n{number}")
    for kind in (OwnedKind.QUEUE, OwnedKind.AGGREGATE_TYPE)
    for number in range(6)
]


def use(broker: SimBroker, *uses: tuple[OwnedName, str]) -> list[Any]:
    """First uses that are decided in one turn; an answer that a failed disk keeps open is an Unavailable."""
    answers: list[list[Any]] = []
    for thing, tenant in uses:
        answers.append([])
        broker.machine.engine.submit(OwnRequest([thing], tenant, answers[-1].append))
    broker.pass_time(ms=0)
    return [answer[0] if answer else Unavailable("no answer") for answer in answers]


@pytest.mark.clause("Y3", "W1")
@pytest.mark.parametrize("seed", range(15))
def test_a_confirmed_owner_survives_everything(seed: int, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL + 1, logger="driftq")
    random = Random(seed)
    broker = SimBroker(seed=seed, segment_bytes=4_096)
    sure: dict[OwnedName, str] = {}
    possible: dict[OwnedName, set[str]] = {}
    for _ in range(150):
        trouble = random.random()
        if trouble < 0.06:
            broker.power_cut() if trouble < 0.03 else broker.kill()
        elif trouble < 0.12:
            broker.machine.folder.fail_next("sync", error=errno.EIO)
        uses = [(random.choice(THINGS), random.choice(TENANTS)) for _ in range(random.randint(1, 4))]
        for (thing, tenant), answer in zip(uses, use(broker, *uses), strict=True):
            if answer is None:
                assert sure.setdefault(thing, tenant) == tenant
            elif isinstance(answer, NotFound):
                assert sure.get(thing) != tenant
                assert thing in sure or possible[thing] - {tenant}
            else:
                possible.setdefault(thing, set()).add(tenant)
        broker.pass_time(ms=random.choice((0, 0, 20, 2_000)))
    broker.pass_time(ms=60_000)
    broker.power_cut()
    state = broker.machine.engine.state
    assert {thing: owner_of(state, *thing) for thing in sure} == sure
    assert len(sure) > 6
    refolded = fold_folder(broker.machine.folder, broker.limits)
    assert differences(canonical(state, now=0), canonical(refolded, now=0)) == []
