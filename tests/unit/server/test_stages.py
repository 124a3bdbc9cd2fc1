"""The stages of a turn: each request type has one, and the order between them is the promised one."""

from typing import Any

import pytest

from driftq.core.commands import Nack
from driftq.errors import NotConfirmed, WritingStopped
from driftq.log.memory import MemoryFolder
from driftq.model import TopicOptions
from driftq.server.requests import JoinRequest, LeaveRequest, NackRequest, TopicRequest
from driftq.testing.broker import Handed, SimBroker
from tests.support.direct import start


def nack(handed: Handed, reply: Any, reason: str = "", *, retryable: bool = True) -> NackRequest:
    nack = Nack(handed.owner, handed.partition, handed.offset, reason, handed.attempt, retryable)
    return NackRequest(handed.topic, handed.group, nack, reply)


async def test_every_request_type_belongs_to_one_stage() -> None:
    client = start(MemoryFolder())
    stages = client.engine.stages
    kinds = [kind for stage in stages._stages for kind in stage.handles]
    assert len(kinds) == len(set(kinds)) == len(stages.by_request)
    await client.broker.close()


def test_a_nack_before_the_end_of_its_stream_is_decided_before_the_release() -> None:
    broker = SimBroker()
    broker.produce("a")
    stream = broker.consume("w", release_on_close=True)
    (handed,) = stream.take()
    answers: list[Any] = []
    broker.machine.engine.submit(nack(handed, answers.append, "out of milk"))
    broker.machine.engine.submit(LeaveRequest(stream.consumer))
    broker.pass_time(ms=60_000)
    assert answers == [None]
    assert broker.deliver(to="v").last_error == "out of milk"


def test_a_stream_that_ends_before_its_join_is_decided_leaves_nothing_behind() -> None:
    broker = SimBroker()
    stream = broker.consume("w")
    broker.close(stream)
    answers: list[Any] = []
    broker.machine.engine.submit(JoinRequest(stream.consumer, answers.append))
    broker.machine.engine.submit(LeaveRequest(stream.consumer))
    broker.produce("a")
    assert answers == [None]
    assert broker.view().streams == []
    assert stream.take() == []


@pytest.mark.parametrize("cold", [False, True])
def test_a_request_is_answered_when_writing_stops_wherever_it_waits(cold: bool) -> None:
    """In its stage's queue, or for a message that has to be read before it can be dead-lettered."""
    broker = SimBroker(cold_reads=1.0 if cold else 0.0)
    broker.produce("a")
    stream = broker.consume("w")
    (handed,) = stream.take()
    answers: list[Any] = []
    engine = broker.machine.engine
    if cold:
        engine.payloads.forget()
        engine.submit(nack(handed, answers.append, retryable=False))
        engine._turn()
        assert engine.stages.lookup.waiting == 1
    else:
        engine.submit(TopicRequest("late", 1, TopicOptions(), answers.append))
    engine._stop_writing("the disk is gone")
    broker.pass_time(ms=10)
    (answer,) = answers
    assert isinstance(answer, NotConfirmed if cold else WritingStopped)
