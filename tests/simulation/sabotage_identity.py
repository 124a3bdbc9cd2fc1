"""Ways of letting one number or name stand for two things, each with the judges that have to notice it."""

from __future__ import annotations

import msgspec
import pytest

from driftq.core.decide import delete as ending
from driftq.core.decide import topics
from driftq.core.memory import Memory
from driftq.core.snapshot import state as snapshot
from driftq.core.state import State
from driftq.server.effects import committed as effects
from tests.simulation.sabotage import Sabotage, _after_recovery, _every_progress


def number_attempts_anew_after_a_reset(monkeypatch: pytest.MonkeyPatch) -> None:
    decide = ending.decide_reset

    def forgetful(topic, group, *, to, now):
        return msgspec.structs.replace(decide(topic, group, to=to, now=now), attempts=[])

    monkeypatch.setattr("driftq.server.topics.stage.decide_reset", forgetful)


def number_attempts_anew_in_a_group_that_comes_again(monkeypatch: pytest.MonkeyPatch) -> None:
    decide = topics.decide_group

    def forgetful(state, topic, name, *, latest, now):
        made = decide(state, topic, name, latest=latest, now=now)
        return made and msgspec.structs.replace(made, attempt_base=0)

    monkeypatch.setattr("driftq.server.topics.stage.decide_group", forgetful)


def forget_the_base_of_attempts_at_a_restart(monkeypatch: pytest.MonkeyPatch) -> None:
    def spoil(state: State) -> None:
        for progress in _every_progress(state):
            progress.attempt_base = 0

    _after_recovery(monkeypatch, spoil)


def count_offsets_anew_in_a_topic_that_is_made_again(monkeypatch: pytest.MonkeyPatch) -> None:
    decide = topics.new_topic

    def forgetful(state, name, *, partitions, options, now):
        made = decide(state, name, partitions=partitions, options=options, now=now)
        return msgspec.structs.replace(made, start_offset=0)

    monkeypatch.setattr(topics, "new_topic", forgetful)


def forget_deleted_topics_at_a_restart(monkeypatch: pytest.MonkeyPatch) -> None:
    def spoil(state: State) -> None:
        state.deleted_topics = Memory()

    _after_recovery(monkeypatch, spoil)


def leave_deleted_topics_out_of_the_snapshot(monkeypatch: pytest.MonkeyPatch) -> None:
    dump = snapshot.dump_state

    def forgetful(state: State) -> dict[str, bytes]:
        return {name: octets for name, octets in dump(state).items() if name != "deleted_topics"}

    monkeypatch.setattr("driftq.housekeeping.round.dump_state", forgetful)


def let_effects_of_a_deleted_topic_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("driftq.server.effects.committed.belongs", lambda topic, to: True)


def settle_by_effects_of_a_deleted_topic(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "driftq.server.settle.stage.is_committed",
        lambda turn, identity, topics: bool(effects.committed_effects(turn, identity)),
    )


IDENTITY_CAUGHT: list[tuple[Sabotage, set[str]]] = [
    (number_attempts_anew_after_a_reset, {"A7"}),
    (number_attempts_anew_in_a_group_that_comes_again, {"A7"}),
    (forget_the_base_of_attempts_at_a_restart, {"A7"}),
    (count_offsets_anew_in_a_topic_that_is_made_again, {"T4", "W4"}),
    (forget_deleted_topics_at_a_restart, {"T4"}),
    (leave_deleted_topics_out_of_the_snapshot, {"T4"}),
    (let_effects_of_a_deleted_topic_count, {"T4"}),
    (settle_by_effects_of_a_deleted_topic, {"I9"}),
]
