"""A group's progress in a partition against a dictionary with one plain record a message."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from driftq.core.decide.backoff import nack_delay_ms
from driftq.model.options.limits import Limits
from tests.unit.core.machine import PureBroker

LIMIT = 5
LEASES = (300, 1_000)


@dataclass
class _Message:
    size: int
    attempts: int = 0
    settled: bool = False
    owner: str | None = None
    until: int = 0
    due_at: int | None = None
    error: str = ""


class GroupMachine(RuleBasedStateMachine):
    """Every rule does the same to the machine and to the model."""

    @initialize()
    def start(self) -> None:
        self.broker = PureBroker(limits=Limits(in_flight_max=LIMIT))
        self.broker.group()
        self.model: dict[int, _Message] = {}

    @property
    def leased(self) -> list[int]:
        return [offset for offset, message in self.model.items() if message.owner is not None]

    @rule(sizes=st.lists(st.integers(1, 9), min_size=1, max_size=4))
    def produce(self, sizes: list[int]) -> None:
        for _, offset in self.broker.produce(*["x" * size for size in sizes]):  # type: ignore[misc]
            self.model[offset] = _Message(sizes.pop(0))

    @rule(room=st.integers(1, 4), owner=st.sampled_from("ab"), lease_ms=st.sampled_from(LEASES))
    def deliver(self, room: int, owner: str, lease_ms: int) -> None:
        now = self.broker.now
        room = min(room, LIMIT - len(self.leased))
        due = [o for o, m in self.model.items() if m.due_at is not None and m.due_at <= now]
        new = [o for o, m in self.model.items() if m.attempts == 0]
        chosen = (due + new)[: max(0, room)]
        record = self.broker.deliver((owner, room), lease_ms=lease_ms) if room > 0 else None
        assert (record is not None) == bool(chosen)
        for offset in chosen:
            message = self.model[offset]
            message.attempts += 1
            message.owner, message.until, message.due_at = owner, now + lease_ms, None

    @precondition(lambda self: self.model)
    @rule(data=st.data(), owner=st.sampled_from("ab"))
    def ack(self, data: st.DataObject, owner: str) -> None:
        offsets = data.draw(st.lists(st.sampled_from(sorted(self.model)), max_size=4))
        _, outcomes = self.broker.ack(*offsets, owner=owner)
        for offset, outcome in zip(offsets, outcomes, strict=True):
            message = self.model[offset]
            held = message.owner == owner and self.broker.now < message.until
            assert (outcome is None) == (message.settled or held)
            if held:
                self.model[offset] = _Message(message.size, message.attempts, settled=True)

    @precondition(lambda self: self.leased)
    @rule(data=st.data(), reason=st.sampled_from(("boom", "")))
    def nack(self, data: st.DataObject, reason: str) -> None:
        offset = data.draw(st.sampled_from(self.leased))
        message = self.model[offset]
        assert message.owner is not None
        if self.broker.now >= message.until:
            return
        self.broker.nack(offset, reason, owner=message.owner, attempt=message.attempts)
        message.owner = None
        message.error = reason or message.error
        message.due_at = self.broker.now + nack_delay_ms(message.attempts)

    @rule(ms=st.integers(0, 700))
    def wait(self, ms: int) -> None:
        self.broker.now += ms
        over = [offset for offset in self.leased if self.model[offset].until <= self.broker.now]
        assert self.broker.expire() == len(over)
        for offset in over:
            message = self.model[offset]
            message.owner, message.due_at = None, message.until
            message.error = message.error or "ack_timeout"

    @invariant()
    def same(self) -> None:
        progress = self.broker.progress()
        unsettled = [offset for offset, message in self.model.items() if not message.settled]
        floor = unsettled[0] if unsettled else len(self.model)
        assert progress.floor == min(floor, progress.upto)
        assert progress.unsettled == len(unsettled)
        assert progress.unsettled_bytes == sum(self.model[offset].size for offset in unsettled)
        settled = [offset for offset, message in self.model.items() if message.settled]
        assert progress.acked == max(settled, default=-1)
        assert [o for o in self.model if progress.is_settled(o)] == settled
        assert sorted(progress.leases.leased) == self.leased
        for offset in unsettled:
            message = self.model[offset]
            assert progress.attempt_of(offset) == message.attempts
            assert progress.errors.get(offset, "") == message.error
            assert progress.waiting.get(offset) == message.due_at
        ends = [self.model[offset].until for offset in self.leased]
        assert progress.leases.next_end() == min(ends, default=None)


TestGroup = pytest.mark.clause("A1", "A3", "A5", "A6", "D1", "G2", "T5")(GroupMachine.TestCase)
TestGroup.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
