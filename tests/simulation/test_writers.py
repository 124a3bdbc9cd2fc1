"""Writers on a disk that fails: whatever happens, each message is there once and in order."""

from __future__ import annotations

import errno
from random import Random
from typing import Any

import pytest

from driftq.core.commands import AppendByPosition
from driftq.errors import DriftQError, Unavailable, WritingStopped
from driftq.model import Message, TopicOptions
from driftq.server.produce.prepare import prepare
from driftq.server.requests import AppendRequest, TopicRequest, WriterRequest
from driftq.testing.clock import VirtualClock
from driftq.testing.disk import Operation, PowerCut, SimFolder
from driftq.testing.machine import boot
from driftq.testing.simulator import draw_options

_MESSAGES = 60
_FAULTS: tuple[Operation, ...] = ("write", "sync", "allocate")
_PATIENCE = 3_000


class _Story:
    """One writer with two lanes, its server, and a disk in trouble; all from one seed."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.options = draw_options(self.random)
        folder = SimFolder(self.random)
        self.machine = boot(
            folder, self.options, clock=VirtualClock(), random=self.random, say=lambda _: None
        )
        self.epoch = 0
        self.crashes = 0

    def crash(self) -> None:
        """The server and the writer die together; what was under way has no answer."""
        folder = self.machine.folder
        power = self.options.fsync and self.random.random() < 0.6
        clock = VirtualClock(self.machine.clock.now() + 5)
        left = folder.crash() if power else folder.process_kill()
        self.machine = boot(left, self.options, clock=clock, random=self.random, say=lambda _: None)
        self.machine.compare_with_log()
        self.epoch = 0
        self.crashes += 1

    def ask(self, send: Any) -> Any:
        """The answer, or None when the server died before it came."""
        answers: list[Any] = []
        try:
            send(answers.append)
            for _ in range(200):
                if answers:
                    return answers[0]
                self.machine.loop.run_for(20)
        except PowerCut:
            pass
        self.crash()
        return None

    def create(self) -> None:
        def send(reply: Any) -> None:
            self.machine.engine.submit(TopicRequest("t", 3, TopicOptions(), reply))

        while isinstance(self.ask(send), Unavailable):
            self.crash()

    def lanes(self) -> dict[int, int] | None:
        """Begin as a newer run; how far the lanes are."""
        opened = self.ask(lambda reply: self.machine.engine.submit(WriterRequest("t", "w", None, reply)))
        if opened is None or isinstance(opened, DriftQError):
            return None
        self.epoch = opened.epoch
        return {lane: opened.lanes.get(lane, -1) for lane in (0, 1)}

    def append(self, lane: int, first: int, count: int) -> Any:
        now = self.machine.clock.now()
        positions = list(range(first, first + count))
        messages = [prepare(Message("t", f"{lane}:{one}", key=f"lane-{lane}"), at=now) for one in positions]
        command = AppendByPosition("t", "w", lane, self.epoch, positions, messages, None)
        return self.ask(
            lambda reply: self.machine.engine.submit(AppendRequest(command.messages, reply, append=command))
        )

    def trouble(self) -> None:
        chance = self.random.random()
        if chance < 0.05:
            self.crash()
        elif chance < 0.1 and self.options.fsync:
            self.machine.folder.cut_power_after(self.random.randint(0, 4))
        elif chance < 0.2:
            fault = self.random.choice(_FAULTS)
            self.machine.folder.fail_next(fault, error=errno.EIO)
        if isinstance(self.machine.engine.refusal, WritingStopped):
            self.crash()

    def run(self) -> None:
        """Send everything, always a little from before, until both lanes are confirmed to the end."""
        self.create()
        confirmed = {0: -1, 1: -1}
        for _ in range(_PATIENCE):
            if min(confirmed.values()) == _MESSAGES - 1:
                return
            self.trouble()
            if not self.epoch:
                known = self.lanes()
                if known is None:
                    continue
                assert all(known[lane] >= confirmed[lane] for lane in known), "confirmed, and lost"
                confirmed = known
            lane = self.random.choice((0, 1))
            first = max(0, confirmed[lane] + 1 - self.random.randint(0, 3))
            answer = self.append(lane, first, min(self.random.randint(1, 6), _MESSAGES - first))
            if answer is not None and not isinstance(answer, DriftQError):
                confirmed[lane] = max(confirmed[lane], answer.position)
        raise AssertionError("the writer does not get through")

    def counts(self) -> list[int]:
        topic = self.machine.engine.state.topics["t"]
        return sorted(part.index.end for part in topic.partitions)


@pytest.mark.clause("Z2", "Z6", "U1")
@pytest.mark.parametrize("seed", range(40))
def test_a_writer_that_repeats_itself_through_kills_and_faults_is_stored_once(seed: int) -> None:
    """Both lanes have one key each, so each of them is the whole of a partition."""
    story = _Story(seed)
    story.run()
    story.machine.compare_with_log()
    assert story.counts() == [0, _MESSAGES, _MESSAGES]
    story.crash()
    assert story.counts() == [0, _MESSAGES, _MESSAGES]
