"""Routers: their word counts when it makes sense, and never stands in the way when it does not."""

import asyncio
import threading
import time
from array import array

import msgspec
import pytest

from driftq.core.evolve.fold import evolve
from driftq.core.keys import fingerprint
from driftq.core.records import MessagesStored, TopicCreated
from driftq.core.state import State
from driftq.model import Envelope, Message, RoutingDecision
from driftq.model.options.limits import Limits
from driftq.server.counters import Counters
from driftq.server.routing.service import NonsenseDecision, RoutingService, follow


@pytest.fixture
def state() -> State:
    state = State(Limits())
    for number, (name, partitions) in enumerate([("in", 1), ("out", 2), ("other", 3)]):
        evolve(state, TopicCreated(1, number + 1, name, partitions), segment=0, blob_at=0)
    return state


@pytest.mark.clause("R1")
def test_the_routers_controls_replace_the_producers(state: State) -> None:
    asked = Message(
        topic="in", value="v", envelope=Envelope(target_topic="other", partition_override=2, run_id="r")
    )
    decision = RoutingDecision(label="l", target_topic="out", partition_override=1, meta={"score": "0.9"})
    routed = follow(asked, decision, state)
    assert routed.envelope == Envelope(target_topic="out", partition_override=1, run_id="r")
    assert routed.routing is not None
    assert (routed.routing.label, routed.routing.meta) == ("l", {"score": "0.9"})


@pytest.mark.clause("R1")
def test_a_label_alone_leaves_the_producers_controls(state: State) -> None:
    envelope = Envelope(target_topic="out", partition_override=1)
    routed = follow(Message(topic="in", value="v", envelope=envelope), RoutingDecision(label="l"), state)
    assert routed.envelope == envelope


@pytest.mark.clause("R2")
@pytest.mark.parametrize(
    "answer",
    [
        RoutingDecision(target_topic="nowhere"),
        RoutingDecision(target_topic="out", partition_override=2),
        RoutingDecision(partition_override=-1),
        RoutingDecision(label=5),  # type: ignore[arg-type]
        RoutingDecision(meta={"score": 0.9}),  # type: ignore[dict-item]
        "out",
        {"target_topic": "out"},
    ],
    ids=str,
)
def test_nonsense_is_told_from_sense(state: State, answer: object) -> None:
    with pytest.raises(NonsenseDecision):
        follow(Message(topic="in", value="v"), answer, state)


@pytest.mark.clause("R2", "R3")
async def test_a_router_that_fails_in_any_way_leaves_the_message_as_it_was(state: State) -> None:
    def raises(topic: str, message: Message) -> RoutingDecision:
        raise RuntimeError(topic)

    def sleeps(topic: str, message: Message) -> RoutingDecision:
        time.sleep(0.2)
        return RoutingDecision(label="late")

    def unknown(topic: str, message: Message) -> RoutingDecision:
        return RoutingDecision(target_topic="nowhere")

    message = Message(topic="in", value="v")
    for router in (raises, sleeps, unknown):
        counters = Counters()
        service = RoutingService(router, state=lambda: state, counters=counters, timeout_ms=50)
        assert await service.route(message) is message
        assert counters.router_failures == 1
        service.stop()


@pytest.mark.clause("R1")
async def test_the_router_sees_the_requested_topic_and_the_whole_message(state: State) -> None:
    seen: list[tuple[str, Message]] = []

    def router(topic: str, message: Message) -> None:
        seen.append((topic, message))

    message = Message(topic="in", value="v", key="k", envelope=Envelope(target_topic="out"))
    service = RoutingService(router, state=lambda: state, counters=Counters())
    assert await service.route(message) is message
    assert seen == [("in", message)]
    assert msgspec.structs.asdict(seen[0][1])["key"] == "k"
    service.stop()


@pytest.mark.clause("R6")
def test_a_router_that_names_its_topics_is_not_asked_about_others(state: State) -> None:
    class Choosy:
        topics = frozenset({"in"})

        def __call__(self, topic: str, message: Message, /) -> None:
            raise AssertionError("not in this test")

    service = RoutingService(Choosy(), state=lambda: state, counters=Counters())
    assert service.wants("in")
    assert not service.wants("out")
    service.stop()


@pytest.mark.clause("R7")
async def test_a_key_that_is_taken_goes_the_recorded_way_and_the_router_is_not_asked(state: State) -> None:
    def router(topic: str, message: Message) -> RoutingDecision:
        raise AssertionError("the decision is recorded")

    print_ = fingerprint("", "in", "k")
    stored = MessagesStored(
        at=1,
        topic=2,
        first_offset=0,
        partition=1,
        partitions=b"",
        lengths=array("I", [9]).tobytes(),
        sizes=array("I", [1]).tobytes(),
        fingerprints=array("Q", [print_]).tobytes(),
    )
    evolve(state, stored, segment=1, blob_at=100)
    service = RoutingService(router, state=lambda: state, counters=Counters())
    again = await service.route(Message(topic="in", value="v", envelope=Envelope(idempotency_key="k")))
    assert again.envelope == Envelope(idempotency_key="k", target_topic="out", partition_override=1)
    service.stop()


@pytest.mark.clause("R7")
async def test_two_under_one_key_at_the_same_time_get_one_decision(state: State) -> None:
    asked: list[str] = []
    go_on = threading.Event()

    def router(topic: str, message: Message) -> RoutingDecision:
        asked.append(message.value)
        go_on.wait(5)
        return RoutingDecision(label=f"decision {len(asked)}")

    service = RoutingService(router, state=lambda: state, counters=Counters(), timeout_ms=5000)
    message = Message(topic="in", value="v", envelope=Envelope(idempotency_key="k"))
    both = [asyncio.create_task(service.route(message)) for _ in range(2)]
    await asyncio.sleep(0)
    go_on.set()
    first, second = await asyncio.gather(*both)
    assert first == second
    assert asked == ["v"]
    service.stop()
