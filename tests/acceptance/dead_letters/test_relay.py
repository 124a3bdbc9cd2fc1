"""The relay of dead letters, killed at every step, and a server that is killed: each is listed once."""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from driftq.errors import RelayFenced, Unavailable
from driftq.model.dead_letter import HandlerDeadLetter
from driftq.pipeline.dead_letters.driftq_letters import DriftqDeadLetters
from driftq.pipeline.dead_letters.relay import Relay, RelayThread
from driftq.sinks.dead_letters import DeadLetterOutbox
from driftq.sql import Transaction
from tests.acceptance.dead_letters.outboxes import Place
from tests.contract.serving import Server
from tests.support.thorough import kinds
from tests.support.waiting import wait_until

LETTERS = 5
_fork = multiprocessing.get_context("fork")


def url(server: Server) -> str:
    return f"http://127.0.0.1:{server.port}"


def listed(server: Server, topic: str) -> list[str]:
    """The texts of a topic's dead letters, as the server lists them."""
    answer = server.get(f"/v1/dlq/{topic}")
    return [one["value"] for one in answer.json["messages"]] if answer.status == 200 else []


TEXTS = [f"text {offset}" for offset in range(LETTERS)]


class Countdown:
    """Kills this process at a given step; 0 spares it."""

    def __init__(self, steps: int) -> None:
        self._left = steps

    def step(self) -> None:
        self._left -= 1
        if self._left == 0:
            os.kill(os.getpid(), signal.SIGKILL)


def relay_once(place: Place, address: str, steps: int, empty: Callable[..., int] | None = None) -> None:
    """In a process of its own: publish everything, two at a time, unless it is killed at this step.

    A step is a statement that the database has executed, or the moment before or after a publish.
    """
    countdown = Countdown(steps)
    execute, publish = Transaction._execute, DriftqDeadLetters.publish

    def counted_execute(self: Transaction, *given: Any) -> Any:
        result = execute(self, *given)
        countdown.step()
        return result

    def counted_publish(self: DriftqDeadLetters, letters: Sequence[HandlerDeadLetter]) -> list[str | None]:
        countdown.step()
        results = publish(self, letters)
        countdown.step()
        return results

    with place.outbox() as outbox:
        patched: list[tuple[type, str, Any]] = [
            (Transaction, "_execute", counted_execute),
            (DriftqDeadLetters, "publish", counted_publish),
            (Relay, "_empty", empty or Relay._empty),
        ]
        for owner, name, replacement in patched:
            setattr(owner, name, replacement)
        Relay("relay", [outbox], DriftqDeadLetters(address), page=2).run()


def run(place: Place, server: Server, *, steps: int = 0, empty: Callable[..., int] | None = None) -> bool:
    """Whether the process was killed."""
    process = _fork.Process(target=relay_once, args=(place, url(server), steps, empty))
    process.start()
    process.join(120)
    assert process.exitcode in (0, -signal.SIGKILL), process.exitcode
    return process.exitcode != 0


@pytest.mark.clause("V3", "K5", "K10", "K5d", "V3d")
@pytest.mark.parametrize(
    "place",
    kinds(["projection-postgres", "worker-sqlite"], thorough=["projection-sqlite", "worker-postgres"]),
    indirect=True,
)
def test_a_relay_killed_at_any_step_leaves_each_dead_letter_once(place: Place, server: Server) -> None:
    for step in range(1, 1_000):
        one = place.named("step")
        one.fill(LETTERS)
        killed = run(one, server, steps=step)
        run(one, server)
        assert sorted(listed(server, one.topic)) == TEXTS, f"killed at step {step}"
        assert one.waiting() == [], f"killed at step {step}"
        if not killed:
            assert step > 12, "a run has more steps than that"
            return
    raise AssertionError("the run does not end")


def _mark_first(self: Relay, outbox: DeadLetterOutbox) -> int:
    """The wrong order."""
    while page := outbox.pending(limit=2):
        outbox.mark_published(page)
        self._topics.publish(page)
    return 0


@pytest.mark.clause("K10")
def test_the_story_notices_a_relay_that_marks_before_it_publishes(place: Place, server: Server) -> None:
    for step in range(3, 16):
        one = place.named("wrong")
        one.fill(LETTERS)
        run(one, server, steps=step, empty=_mark_first)
        run(one, server, empty=_mark_first)
        if sorted(listed(server, one.topic)) != TEXTS:
            return
    raise AssertionError("nothing was lost")


@pytest.mark.clause("V3", "K5", "K10", "K5d", "V3d")
def test_a_server_that_is_killed_before_its_answer_is_known_stores_each_once(
    place: Place, tmp_path_factory: pytest.TempPathFactory
) -> None:
    with Server(tmp_path_factory.mktemp("mortal") / "log") as server:
        place.fill(LETTERS)

        class Dying(DriftqDeadLetters):
            """The server dies when it has stored the dead letters, and the relay hears nothing."""

            def publish(self, letters: Sequence[HandlerDeadLetter]) -> list[str | None]:
                super().publish(letters)
                server.kill()
                return super().publish(letters)

        with place.outbox() as outbox:
            with pytest.raises(Unavailable):
                Relay("relay", [outbox], Dying(url(server), patience_s=0)).run()
            assert len(outbox.pending(limit=100)) == LETTERS
            server.start()
            assert Relay("relay", [outbox], DriftqDeadLetters(url(server))).run() == LETTERS
            assert outbox.pending(limit=100) == []
        assert sorted(listed(server, place.topic)) == TEXTS


@pytest.mark.clause("K10")
def test_a_relay_of_an_older_run_stops_and_the_newer_one_goes_on(place: Place, server: Server) -> None:
    one = place.named("fenced")
    one.fill(LETTERS)
    with one.outbox() as older:
        seen = older.pending(limit=100)
        DriftqDeadLetters(url(server)).publish(seen)
        with one.outbox() as newer:
            thread = RelayThread(Relay("older", [older], DriftqDeadLetters(url(server))), every_s=3_600)
            thread.start()
            wait_until("the older relay has stopped", lambda: not thread.is_alive)
            with pytest.raises(RelayFenced):
                older.mark_published(seen)
            assert Relay("newer", [newer], DriftqDeadLetters(url(server))).run() == LETTERS
    assert sorted(listed(server, one.topic)) == TEXTS


@pytest.mark.clause("K10")
def test_the_thread_publishes_at_its_start_when_it_is_woken_and_at_its_end(
    place: Place, server: Server
) -> None:
    one = place.named("thread")
    one.fill(1)
    with one.outbox() as outbox:
        thread = RelayThread(Relay("relay", [outbox], DriftqDeadLetters(url(server))), every_s=3_600)
        thread.start()
        wait_until("the first is published", lambda: listed(server, one.topic) == TEXTS[:1])
        if one.kind == "worker":  # Another fill takes a projection over, and so fences its relay.
            one.fill(3)
            thread.wake()
            wait_until("three are published", lambda: sorted(listed(server, one.topic)) == TEXTS[:3])
            one.fill(LETTERS)
        thread.finish()
        assert not thread.is_alive
    expected = TEXTS if one.kind == "worker" else TEXTS[:1]
    assert sorted(listed(server, one.topic)) == expected


@pytest.mark.clause("K10")
def test_an_outage_is_waited_out_in_rounds(place: Place, tmp_path_factory: pytest.TempPathFactory) -> None:
    with Server(tmp_path_factory.mktemp("away") / "log") as server:
        server.kill()
        place.fill(LETTERS)
        with place.outbox() as outbox:
            topics = DriftqDeadLetters(url(server), patience_s=0)
            thread = RelayThread(Relay("relay", [outbox], topics), every_s=0.05)
            thread.start()
            server.start()
            wait_until("all are published", lambda: sorted(listed(server, place.topic)) == TEXTS)
            thread.finish()


@pytest.mark.clause("K10")
def test_one_that_the_server_refuses_holds_up_no_other(place: Place, server: Server) -> None:
    one = place.named("refused")
    one.fill(LETTERS)

    class Picky(DriftqDeadLetters):
        def publish(self, letters: Sequence[HandlerDeadLetter]) -> list[str | None]:
            taken = [letter for letter in letters if letter.offset != 1]
            results = iter(super().publish(taken))
            return ["no" if letter.offset == 1 else next(results) for letter in letters]

    with one.outbox() as outbox:
        assert Relay("relay", [outbox], Picky(url(server)), page=2).run() == LETTERS - 1
        assert [letter.offset for letter in outbox.pending(limit=100)] == [1]
        assert Relay("relay", [outbox], DriftqDeadLetters(url(server))).run() == 1
    assert sorted(listed(server, one.topic)) == TEXTS
