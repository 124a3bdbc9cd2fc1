"""Delayed messages and groups against a list of plain facts: each message is due or not, and had or not."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from driftq.core.snapshot.state import dump_state, load_state
from driftq.model.options.limits import Limits
from driftq.testing.canonical import canonical, differences, unsettled
from tests.unit.core.machine import PureBroker, command

LIMIT = 4


@dataclass
class _Group:
    start: int
    held: list[int] = field(default_factory=list)
    had: set[int] = field(default_factory=set)


class DelayMachine(RuleBasedStateMachine):
    """The model knows for each message when it is due, and for each group what it has had."""

    @initialize()
    def start(self) -> None:
        self.broker = PureBroker(limits=Limits(in_flight_max=LIMIT))
        self.due: list[int] = []
        self.groups: dict[str, _Group] = {}
        self.join(latest=False)

    @precondition(lambda self: len(self.groups) < 3)
    @rule(latest=st.booleans())
    def join(self, latest: bool) -> None:
        name = f"g{len(self.groups)}"
        self.broker.group(name, latest=latest)
        self.groups[name] = _Group(len(self.due) if latest else 0)

    @rule(delays=st.lists(st.sampled_from((None, None, -5, 0, 1, 50, 50, 400)), min_size=1, max_size=6))
    def produce(self, delays: list[int | None]) -> None:
        now = self.broker.now
        self.broker.produce_commands(
            [command("x", deliver_at=None if delay is None else now + delay) for delay in delays]
        )
        self.due += [now + (delay or 0) for delay in delays]

    @rule(ms=st.sampled_from((1, 49, 50, 200)))
    def wait(self, ms: int) -> None:
        self.broker.now += ms
        self.broker.end_delays()

    @rule(data=st.data(), room=st.integers(1, 3))
    def deliver(self, data: st.DataObject, room: int) -> None:
        name = data.draw(st.sampled_from(sorted(self.groups)))
        group = self.groups[name]
        record = self.broker.deliver(("a", room), group=name, lease_ms=10_000_000)
        fresh = [] if record is None else record.fresh
        given = [one for block in fresh for one in range(block.start, block.stop, block.step)]
        assert record is None or not record.redelivered
        ready = [
            ordinal
            for ordinal in range(group.start, len(self.due))
            if self.due[ordinal] <= self.broker.now and ordinal not in group.had
        ]
        assert len(given) == min(room, LIMIT - len(group.held), len(ready))
        assert set(given) <= set(ready)
        assert len(set(given)) == len(given)
        group.had.update(given)
        group.held += given

    @precondition(lambda self: any(group.held for group in self.groups.values()))
    @rule(data=st.data())
    def ack(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(sorted(name for name, one in self.groups.items() if one.held)))
        ordinal = data.draw(st.sampled_from(self.groups[name].held))
        _, outcomes = self.broker.ack(ordinal, group=name)
        assert outcomes == [None]
        self.groups[name].held.remove(ordinal)

    @rule()
    def restart(self) -> None:
        """From a snapshot: it says the same."""
        state = self.broker.state
        parts = {name: memoryview(octets) for name, octets in dump_state(state).items()}
        loaded = load_state(parts, state.limits)
        for chunk in state.topics["orders"].partitions[0].index.chunks:
            loaded.topics["orders"].partitions[0].index.attach(chunk)
        now = self.broker.now
        loaded.count_pressure(loaded.topics["orders"], now)
        assert not differences(canonical(loaded, now=now), canonical(state, now=now))
        self.broker.state = loaded

    @invariant()
    def same(self) -> None:
        now, part = self.broker.now, self.broker.topic.partitions[0]
        later = [at for at in self.due if at > now]
        head = self.broker.state.next_delay()
        assert (None if head is None else head[0]) == min(later, default=None)
        assert part.index.specials.count_delayed(0) == len(later)
        for name, group in self.groups.items():
            progress = self.broker.progress(name)
            assert progress.delayed == sum(at > now for at in self.due[group.start :])
            assert progress.unsettled == len(self.due) - group.start - len(group.had) + len(group.held)
            ready = any(
                at <= now and ordinal not in group.had
                for ordinal, at in enumerate(self.due)
                if ordinal >= group.start
            )
            assert progress.has_work(now) or not ready
        self.broker.state.count_pressure(self.broker.topic, now)
        counted = unsettled(self.broker.topic, 0, limits=self.broker.state.limits, now=now)
        assert (part.pressure, part.pressure_bytes) == counted


TestDelays = pytest.mark.clause("P9", "P4", "G2")(DelayMachine.TestCase)
TestDelays.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
