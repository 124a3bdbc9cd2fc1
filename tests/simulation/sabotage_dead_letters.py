"""Ways of losing dead letters and of sending them to the wrong ones, each with the promise that it breaks."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import msgspec
import pytest

from driftq.core.decide.dead_letters import Placed, decide_placing
from driftq.http import reads
from driftq.model import StoredMessage
from driftq.server.dlq import stage as dlq
from driftq.server.dlq.stage import DlqStage, Skipped
from driftq.server.engine import Engine
from driftq.storage.entry import decode_entry

Sabotage = Callable[[pytest.MonkeyPatch], None]


def _believe_that_all_are_stored(state, topic, commands, *, lookup, now, wall) -> Placed:
    """The outcomes are not looked at."""
    placed = decide_placing(state, topic, commands, lookup=lookup, now=now, wall=wall)
    for slot in placed.refused:
        placed.partitions[slot] = 0
    placed.partitions = dict(sorted(placed.partitions.items()))
    placed.refused = {}
    return placed


def _where_it_was(original: int, *, partitions: int) -> int:
    """Whether or not there is such a partition."""
    return original


def settle_although_the_dead_letter_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("driftq.server.settle.dead_letters.dead_letter_partition", _where_it_was)
    monkeypatch.setattr("driftq.server.settle.dead_letters.decide_placing", _believe_that_all_are_stored)


def put_all_dead_letters_into_the_first_partition(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "driftq.server.settle.dead_letters.dead_letter_partition", lambda original, *, partitions: 0
    )


def mark_what_was_not_redriven(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("driftq.server.dlq.stage.redrive_partition", _where_it_was)
    monkeypatch.setattr("driftq.server.dlq.stage.decide_placing", _believe_that_all_are_stored)


def redrive_without_headers(monkeypatch: pytest.MonkeyPatch) -> None:
    def bare(entry: bytes) -> StoredMessage:
        return msgspec.structs.replace(decode_entry(entry), headers=None)

    monkeypatch.setattr(dlq, "decode_entry", bare)


def redrive_for_everybody_when_the_group_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    message = dlq._redriven_message

    def generous(turn, ref, origin, *, all_groups):
        decided = message(turn, ref, origin, all_groups=all_groups)
        if isinstance(decided, Skipped):
            return message(turn, ref, origin, all_groups=True)
        return decided

    monkeypatch.setattr(dlq, "_redriven_message", generous)


def redrive_a_dead_letter_as_often_as_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    redrive = DlqStage._redrive

    def forgetful(self: DlqStage, turn, request, dlq_topic):
        dlq_topic.redriven.clear()
        return redrive(self, turn, request, dlq_topic)

    monkeypatch.setattr(DlqStage, "_redrive", forgetful)


def go_on_after_damage(monkeypatch: pytest.MonkeyPatch) -> None:
    @contextmanager
    def carefree(engine: Engine) -> Iterator[None]:
        yield

    monkeypatch.setattr(reads, "reading", carefree)


def answer_damage_and_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Engine, "damaged", lambda self, damage: None)


CAUGHT: list[tuple[Sabotage, set[str]]] = [
    (settle_although_the_dead_letter_is_refused, {"D4"}),
    (put_all_dead_letters_into_the_first_partition, {"D4"}),
    (mark_what_was_not_redriven, {"D6"}),
    (redrive_without_headers, {"P8"}),
    (redrive_for_everybody_when_the_group_is_gone, {"D6"}),
    (redrive_a_dead_letter_as_often_as_asked, {"D6"}),
    (go_on_after_damage, {"W4"}),
    (answer_damage_and_go_on, {"W4"}),
]
