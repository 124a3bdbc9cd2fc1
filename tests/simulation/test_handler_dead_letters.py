"""A relay that repeats itself on a disk that fails: each dead letter of a handler is stored once."""

from __future__ import annotations

import errno
from random import Random
from typing import Any

import pytest

from driftq.core.decide import dead_letters as deciding
from driftq.core.decide.produce import Duplicate
from driftq.errors import DriftQError, Unavailable, WritingStopped
from driftq.model import TopicOptions
from driftq.model.dead_letter import HandlerDeadLetter, HandlerKind
from driftq.server.dlq.handler_letters import StoreDeadLettersRequest
from driftq.server.dlq.pages import dead_letter_page
from driftq.server.dlq.stage import PurgeRequest, RedriveOutcome, RedriveRequest
from driftq.server.requests import TopicRequest
from driftq.storage.entry import decode_entry
from driftq.testing.clock import VirtualClock
from driftq.testing.disk import Operation, PowerCut, SimFolder
from driftq.testing.machine import boot
from driftq.testing.simulator import draw_options

_LETTERS = 40
_FAULTS: tuple[Operation, ...] = ("write", "sync", "allocate")
_PATIENCE = 2_000


def _letter(number: int) -> HandlerDeadLetter:
    return HandlerDeadLetter(
        kind=HandlerKind.WORKER if number % 2 else HandlerKind.PROJECTION,
        handler="billing",
        topic="t",
        partition=number % 5,
        offset=number,
        stage="handle",
        error=f"error {number}",
        reason="max_attempts",
        attempts=6,
        at=1_000 + number,
        key=f"k{number}",
        value=f"v{number}" * 20,
        redrives=number % 3,
    )


class _Story:
    """One relay with its outbox, its server, and a disk in trouble; all from one seed."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.options = draw_options(self.random)
        folder = SimFolder(self.random)
        self.machine = boot(
            folder, self.options, clock=VirtualClock(), random=self.random, say=lambda _: None
        )
        self.published: set[int] = set()
        """What the outbox has marked."""
        self.purged: set[str] = set()

    def crash(self) -> None:
        folder = self.machine.folder
        power = self.options.fsync and self.random.random() < 0.6
        clock = VirtualClock(self.machine.clock.now() + 5)
        left = folder.crash() if power else folder.process_kill()
        self.machine = boot(left, self.options, clock=clock, random=self.random, say=lambda _: None)
        self.machine.compare_with_log()

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

    def publish(self, numbers: list[int]) -> Any:
        letters = [_letter(number) for number in numbers]
        ids = [letter.id for letter in letters]
        return self.ask(
            lambda reply: self.machine.engine.submit(StoreDeadLettersRequest("t", letters, ids, reply))
        )

    def trouble(self) -> None:
        chance = self.random.random()
        if chance < 0.06:
            self.crash()
        elif chance < 0.12 and self.options.fsync:
            self.machine.folder.cut_power_after(self.random.randint(0, 4))
        elif chance < 0.22:
            fault = self.random.choice(_FAULTS)
            self.machine.folder.fail_next(fault, error=errno.EIO)
        if isinstance(self.machine.engine.refusal, WritingStopped):
            self.crash()

    def run(self) -> None:
        """Publish until the outbox is empty; marked ones come again now and then, as from an older relay."""
        self.create()
        for _ in range(_PATIENCE):
            pending = [number for number in range(_LETTERS) if number not in self.published]
            if not pending:
                return
            self.trouble()
            numbers = self.random.sample(pending, min(len(pending), self.random.randint(1, 5)))
            numbers += self.random.sample(sorted(self.published), min(len(self.published), 2))
            numbers += numbers[:1]
            answer = self.publish(numbers)
            if answer is None or isinstance(answer, DriftQError):
                continue
            for number, outcome in zip(numbers, answer, strict=True):
                if number in self.published:
                    assert isinstance(outcome, Duplicate), f"{number} was confirmed, and is stored again"
                self.published.add(number)
        raise AssertionError("the relay does not get through")

    def stored(self) -> list[HandlerDeadLetter]:
        """Everything in the dead-letter topic, decoded."""
        topic = self.machine.engine.state.topics["dlq.t"]
        found: list[HandlerDeadLetter] = []
        for ref in dead_letter_page(topic).refs:
            index = topic.partitions[ref.partition].index
            [entry] = self.machine.engine.payloads.read(index, [ref.ordinal])
            message = decode_entry(entry)
            assert message.envelope is not None
            facts = message.envelope.dlq
            assert facts is not None
            assert ref.partition == facts.original_partition % 3
            number = facts.original_offset
            assert (facts.id, message.key, message.value) == (
                _letter(number).id,
                _letter(number).key,
                _letter(number).value,
            )
            found.append(_letter(number))
        return found


@pytest.mark.clause("K10")
@pytest.mark.parametrize("seed", range(40))
def test_a_relay_that_repeats_itself_through_kills_and_faults_stores_each_once(seed: int) -> None:
    story = _Story(seed)
    story.run()
    story.machine.compare_with_log()
    expected = sorted(letter.id for letter in map(_letter, range(_LETTERS)))
    assert sorted(letter.id for letter in story.stored()) == expected
    story.crash()
    assert sorted(letter.id for letter in story.stored()) == expected

    offsets = [ref.offset for ref in dead_letter_page(story.machine.engine.state.topics["dlq.t"]).refs]
    gone = offsets[::3]
    purged = story.ask(lambda reply: story.machine.engine.submit(PurgeRequest("t", gone, reply)))
    assert purged == gone
    redriven = story.ask(
        lambda reply: story.machine.engine.submit(RedriveRequest("t", offsets, "ada", True, reply))
    )
    assert isinstance(redriven, RedriveOutcome)
    assert not redriven.sent
    assert story.machine.engine.state.topics["t"].next_offset == 0, "a redrive appended to the source topic"
    story.crash()
    again = story.publish(list(range(_LETTERS)))
    assert sum(not isinstance(outcome, Duplicate) for outcome in again) == len(gone)
    assert sorted(letter.id for letter in story.stored()) == expected


@pytest.mark.clause("K10")
def test_the_story_notices_a_server_that_forgets_ids(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deciding, "_find_stored", lambda *_: [])
    with pytest.raises(AssertionError):
        test_a_relay_that_repeats_itself_through_kills_and_faults_stores_each_once(3)
