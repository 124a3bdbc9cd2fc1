"""The history says of each delivery who, when, and what became of it."""

from contextlib import closing
from pathlib import Path
from random import Random

import pytest

from driftq.core.commands import Nack
from driftq.core.dead_lettered import DeadLettered
from driftq.core.decide import decide_expiries, decide_nack, settled
from driftq.core.decide.delete import decide_reset
from driftq.core.records import (
    SETTLED_DEAD,
    SETTLED_SKIPPED,
    DeadLettersRedriven,
    SegmentRolled,
    TopicCreated,
)
from driftq.history.file import open_history
from driftq.history.message import MessageQuery
from driftq.history.replay import Names, find_steps, read_message_histories
from driftq.history.writer import History
from driftq.housekeeping.round import run_round
from driftq.model import DeadLetterFacts, Envelope
from driftq.storage.entry import encode_text, encode_time
from driftq.testing.disk import SimFolder
from tests.support.story import Story


def round_of(story: Story, path: Path) -> None:
    story.log.roll()
    story.produce("t", "behind the seal")
    run_round(story.folder, limits=story.limits, upto=story.log.sealed, projections=[History(str(path))])


def attempts(path: Path, offset: int) -> list[tuple[object, ...]]:
    database = open_history(str(path))
    found = database.execute(
        'SELECT "group", attempt, owner, outcome, reason FROM deliveries WHERE "offset" = ? ORDER BY 1, 2',
        (offset,),
    ).fetchall()
    database.close()
    return found


@pytest.mark.clause("D8")
def test_every_attempt_is_told_across_rounds(tmp_path: Path) -> None:
    path = tmp_path / "history.db"
    story = Story(SimFolder(Random(1)))
    topic = story.topic("t")
    story.group("t", "g")
    story.produce("t", "a", "b")
    story.deliver("t", "g", 2, owner="w1", lease_ms=1_000)
    group = topic.groups["g"]
    nacked = decide_nack(
        story.state, topic, group, Nack("w1", 0, 0, "out of milk"), now=story.now, jitter=0.0
    )
    assert not isinstance(nacked, DeadLettered)
    story.journal.add(nacked)
    round_of(story, path)
    story.now += 1_000
    expired, _ = decide_expiries(story.state, topic, group, 0, now=story.now, jitter=lambda: 0.0)
    assert expired is not None
    story.journal.add(expired)
    story.deliver("t", "g", 3, owner="w2")
    story.ack("t", "g", 0, owner="w2")
    round_of(story, path)
    round_of(story, path)
    assert attempts(path, 0) == [("g", 1, "w1", "nacked", "out of milk"), ("g", 2, "w2", "acked", None)]
    assert attempts(path, 1) == [("g", 1, "w1", "expired", None), ("g", 2, "w2", None, None)]


@pytest.mark.clause("D8", "A7")
def test_the_attempts_from_before_a_reset_are_told_beside_those_after_it(tmp_path: Path) -> None:
    path = tmp_path / "history.db"
    story = Story(SimFolder(Random(1)))
    topic = story.topic("t")
    story.group("t", "g")
    story.produce("t", "a")
    story.deliver("t", "g", 1, owner="w1")
    story.journal.add(decide_reset(topic, "g", to="earliest", now=story.now))
    story.deliver("t", "g", 1, owner="w2")
    round_of(story, path)
    story.journal.add(decide_reset(topic, "g", to="earliest", now=story.now))
    story.deliver("t", "g", 1, owner="w3")
    group = topic.groups["g"]
    wanted = MessageQuery(topic.id, 0, 0, 0)
    names = Names({group.id: (topic.id, "g")}, {})
    (past,) = read_message_histories(
        story.folder, str(path), [wanted], names, end=story.log.confirmed
    ).values()
    assert {number: one.owner for (_, number), one in past.attempts.items()} == {1: "w1", 2: "w2", 3: "w3"}
    round_of(story, path)
    assert [(number, owner) for _, number, owner, *_ in attempts(path, 0)] == [
        (1, "w1"),
        (2, "w2"),
        (3, "w3"),
    ]


@pytest.mark.clause("D8", "T7")
def test_the_history_of_a_message_goes_with_it(tmp_path: Path) -> None:
    path = tmp_path / "history.db"
    story = Story(SimFolder(Random(1)))
    story.topic("t")
    story.group("t", "g")
    story.produce("t", "a", "b")
    story.deliver("t", "g", 2)
    story.ack("t", "g", 0)
    round_of(story, path)
    assert attempts(path, 0)
    story.now += 10**6
    story.trim()
    round_of(story, path)
    assert (attempts(path, 0), len(attempts(path, 1))) == ([], 1)


@pytest.mark.clause("E5")
def test_the_steps_of_a_run_are_found(tmp_path: Path) -> None:
    path = tmp_path / "history.db"
    story = Story(SimFolder(Random(1)))
    story.topic("t", 2)
    story.produce("t", "plan", key="a", envelope=Envelope(run_id="r", step_id="1"))
    story.produce("t", "act", key="b", envelope=Envelope(run_id="r", step_id="2", parent_step_id="1"))
    story.produce("t", "other")
    round_of(story, path)
    database = open_history(str(path))
    steps = database.execute(
        'SELECT run_id, step_id, parent_step_id, "offset" FROM steps ORDER BY 2'
    ).fetchall()
    database.close()
    assert steps == [("r", "1", None, 0), ("r", "2", "1", 1)]


@pytest.mark.clause("D8", "D3")
def test_a_message_given_up_is_dead_with_its_letter_and_its_redrive(tmp_path: Path) -> None:
    path = tmp_path / "history.db"
    story = Story(SimFolder(Random(1)))
    origin = story.topic("t")
    story.journal.add(TopicCreated(story.now, story.state.next_topic, "dlq.t", 1))
    grave = story.state.topics["dlq.t"]
    story.group("t", "g")
    story.produce("t", "a", "b")
    story.deliver("t", "g", 2)
    facts = DeadLetterFacts("t", 0, 1, "g", 1, "out of milk", "max_attempts", "2026-01-01T00:00:00.000Z")
    story.produce("dlq.t", "b", envelope=Envelope(dlq=facts))
    story.journal.add(settled(origin.groups["g"], 0, [1], cause=SETTLED_DEAD, now=story.now))
    story.commit()
    round_of(story, path)
    assert attempts(path, 1) == [("g", 1, "w", "dead", "out of milk")]
    story.produce("t", "b")
    story.journal.add(DeadLettersRedriven(at=story.now + 5, topic=grave.id, offsets=[0], by="ada"))
    story.commit()
    round_of(story, path)
    database = open_history(str(path))
    with closing(database):
        columns = '"offset", "group", reason, dlq_offset, redriven_by, redriven_offset'
        letters = database.execute(f"SELECT {columns} FROM letters").fetchall()
    assert letters == [(1, "g", "max_attempts", 0, "ada", origin.next_offset - 2)]


@pytest.mark.clause("D8", "D6")
def test_what_passed_a_group_by_is_told_without_a_delivery(tmp_path: Path) -> None:
    path = tmp_path / "history.db"
    story = Story(SimFolder(Random(1)))
    origin = story.topic("t")
    story.group("t", "g")
    story.produce("t", "for somebody else")
    story.journal.add(settled(origin.groups["g"], 0, [0], cause=SETTLED_SKIPPED, now=story.now))
    story.commit()
    round_of(story, path)
    assert attempts(path, 0) == [("g", 0, "", "passed", None)]


@pytest.mark.clause("D8")
def test_the_tail_of_the_log_adds_what_the_history_does_not_know_yet(tmp_path: Path) -> None:
    path = str(tmp_path / "history.db")
    story = Story(SimFolder(Random(1)))
    origin = story.topic("t")
    story.group("t", "g")
    story.produce("t", "a", envelope=Envelope(run_id="r", step_id="1"))
    names = Names({origin.groups["g"].id: (origin.id, "g")}, {})
    wanted = MessageQuery(origin.id, 0, 0, 0)

    def attempts() -> list[tuple[int, str | None]]:
        [past] = read_message_histories(story.folder, path, [wanted], names, end=story.log.confirmed).values()
        return [(attempt, one.outcome) for (_, attempt), one in past.attempts.items()]

    assert attempts() == []
    story.deliver("t", "g", 1, lease_ms=1_000)
    assert attempts() == [(1, None)]
    round_of(story, Path(path))
    assert attempts() == [(1, None)]
    story.now += 1_000
    expired, _ = decide_expiries(
        story.state, origin, origin.groups["g"], 0, now=story.now, jitter=lambda: 0.0
    )
    assert expired is not None
    story.journal.add(expired)
    early = story.log.confirmed
    story.deliver("t", "g", 1)
    story.ack("t", "g", 0)
    assert attempts() == [(1, "expired"), (2, "acked")]
    [past] = read_message_histories(story.folder, path, [wanted], names, end=early).values()
    assert [one.outcome for one in past.attempts.values()] == [None]
    story.produce("t", "b", envelope=Envelope(run_id="r", step_id="2", parent_step_id="1"))
    steps = find_steps(story.folder, path, "r", end=story.log.confirmed)
    assert [(step.step_id, step.parent_step_id) for step in steps] == [("1", None), ("2", "1")]


@pytest.mark.clause("E5")
def test_texts_of_the_brokers_own_do_not_stop_a_round(tmp_path: Path) -> None:
    path = tmp_path / "history.db"
    story = Story(SimFolder(Random(1)))
    story.topic("t")
    story.journal.add(TopicCreated(story.now, story.state.next_topic, "~texts", 1))
    text = encode_text(b'{"result":{"run_id":"r","dlq":1}}', encode_time(story.now))
    own = story.state.topics["~texts"]
    story.journal.add_texts(own, [text], also=SegmentRolled(at=story.now), now=story.now)
    story.commit()
    round_of(story, path)
    assert find_steps(story.folder, str(path), "r", end=story.log.confirmed) == []
