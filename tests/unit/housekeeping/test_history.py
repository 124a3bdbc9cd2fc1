"""The history says of each delivery who, when, and what became of it."""

from pathlib import Path
from random import Random

import pytest

from driftq.core.casualty import Casualty
from driftq.core.commands import Nack
from driftq.core.decide import decide_expiries, decide_nack
from driftq.housekeeping.history import History
from driftq.housekeeping.history_file import open_history
from driftq.housekeeping.round import run_round
from driftq.model import Envelope
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
    nacked = decide_nack(story.state, topic, group, Nack("w1", 0, 0, "out of milk"), now=story.now, draw=0.0)
    assert not isinstance(nacked, Casualty)
    story.journal.add(nacked)
    round_of(story, path)
    story.now += 1_000
    expired, _ = decide_expiries(story.state, topic, group, 0, now=story.now, draw=lambda: 0.0)
    assert expired is not None
    story.journal.add(expired)
    story.deliver("t", "g", 3, owner="w2")
    story.ack("t", "g", 0, owner="w2")
    round_of(story, path)
    round_of(story, path)
    assert attempts(path, 0) == [("g", 1, "w1", "nacked", "out of milk"), ("g", 2, "w2", "acked", None)]
    assert attempts(path, 1) == [("g", 1, "w1", "expired", None), ("g", 2, "w2", None, None)]


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
