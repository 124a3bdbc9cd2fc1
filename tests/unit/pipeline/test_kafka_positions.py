"""What a lane's position on Kafka means, and every reason to refuse a batch, without Kafka."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

import pytest

from driftq.publishing.kafka.positions import (
    LanePositions,
    LaneRefused,
    RunStamp,
    SentTopic,
    changes,
    fold_records,
    moved,
    positions_of,
    refuse_if_newer,
    require_no_gap,
    require_ours,
    taken_over,
)

pytestmark = pytest.mark.clause("U7")

RUN = RunStamp(4, "run-a")
A, B = "events.a", "events.b"


def lane(position: int = 0, **topics: SentTopic) -> LanePositions:
    named = {f"events.{name}": topic for name, topic in topics.items()}
    return LanePositions(run=RUN, lanes=4, position=position, topics=named)


def test_a_position_covers_every_topic_that_keeps_up() -> None:
    found = lane(100, a=SentTopic("id-a"), b=SentTopic("id-b", 30))
    assert (found.sent(A), found.sent(B), found.sent("events.new")) == (100, 30, 100)
    assert (found.lowest, found.behind) == (30, [B])


def test_a_lane_moves_without_events_and_never_back() -> None:
    assert moved(lane(100), 150, sent_to={}).position == 150
    assert moved(lane(100), 50, sent_to={}) == lane(100)


def test_a_topic_is_recorded_with_the_first_event_it_gets() -> None:
    after = moved(lane(100), 150, sent_to={A: "id-a"})
    assert after == lane(150, a=SentTopic("id-a"))
    assert moved(after, 160, sent_to={A: "id-a"}) == lane(160, a=SentTopic("id-a"))


def test_a_topic_that_was_lost_catches_up_and_then_keeps_up() -> None:
    behind = lane(100, a=SentTopic("id-a"), b=SentTopic("", 0))
    half = moved(behind, 50, sent_to={B: "id-b2"})
    assert half == lane(100, a=SentTopic("id-a"), b=SentTopic("id-b2", 50))
    assert moved(half, 100, sent_to={}) == lane(100, a=SentTopic("id-a"), b=SentTopic("id-b2"))
    assert moved(half, 120, sent_to={}) == lane(120, a=SentTopic("id-a"), b=SentTopic("id-b2"))


def test_a_lost_topic_that_gets_nothing_from_the_lane_is_forgotten() -> None:
    assert moved(lane(100, b=SentTopic("", 0)), 100, sent_to={}) == lane(100)


@pytest.mark.parametrize("first", [1, 50, 101])
def test_a_batch_that_overlaps_or_follows_is_taken(first: int) -> None:
    require_no_gap(lane(100), lane=0, first=first)


@pytest.mark.parametrize(("found", "first"), [(lane(100), 102), (lane(100, a=SentTopic("id", 30)), 32)])
def test_a_batch_that_leaves_a_gap_is_refused(found: LanePositions, first: int) -> None:
    with pytest.raises(LaneRefused, match=f"a batch begins at {first}") as refused:
        require_no_gap(found, lane=0, first=first)
    assert not refused.value.replaced


@pytest.mark.parametrize("run", [RunStamp(3, "run-a"), RunStamp(4, "run-b")])
def test_an_older_run_and_one_with_the_same_epoch_refuse_themselves(run: RunStamp) -> None:
    for check in (refuse_if_newer, require_ours):
        with pytest.raises(LaneRefused, match="run 4 has taken over lane 2") as refused:
            check(lane(100), run, lane=2)
        assert refused.value.replaced
    with pytest.raises(LaneRefused):
        taken_over(lane(100), run, lane=2, lanes=4, ids={})


@pytest.mark.parametrize("found", [None, lane(100)])
def test_a_run_whose_stamp_is_gone_from_the_lane_writes_nothing(found: LanePositions | None) -> None:
    later = RunStamp(5, "run-c")
    refuse_if_newer(found, later, lane=2)
    with pytest.raises(LaneRefused, match=r"the position of lane 2 in driftq\.positions is gone") as refused:
        require_ours(found, later, lane=2)
    assert not refused.value.replaced
    assert require_ours(lane(100), RUN, lane=2) == lane(100)


def test_a_take_over_keeps_what_is_sent_unless_the_topic_is_another_one() -> None:
    found = lane(100, same=SentTopic("1"), other=SentTopic("2"), gone=SentTopic("3"), late=SentTopic("4", 9))
    ids = {"events.same": "1", "events.other": "2-new", "events.late": "4", "events.unrelated": "7"}
    taken = taken_over(found, RunStamp(5, "b"), lane=0, lanes=4, ids=ids)
    assert taken.run == RunStamp(5, "b")
    assert taken.topics == {
        "events.same": SentTopic("1"),
        "events.other": SentTopic("2-new", 0),
        "events.gone": SentTopic("", 0),
        "events.late": SentTopic("4", 9),
    }
    assert (taken.position, taken.lowest) == (100, 0)
    assert taken_over(None, RUN, lane=0, lanes=4, ids={}) == lane(0)


def test_records_read_back_as_the_positions_that_were_written() -> None:
    """However often and in whatever steps they changed, beside other logs and lanes."""
    for seed in range(50):
        random = Random(seed)
        state: LanePositions | None = None
        written: list[tuple[bytes | None, bytes | None]] = [(b"not ours", b"{}"), (None, None)]
        for _ in range(random.randint(1, 12)):
            after = _next(random, state)
            written += changes("log-1", 3, state, after)
            written += changes("log-2", 3, None, lane(9))
            written += changes("log-1", 2, None, lane(8))
            state = after
        assert positions_of(fold_records({}, "log-1", 3, written)) == state, seed
        half = fold_records({}, "log-1", 3, written[: len(written) // 2])
        assert positions_of(fold_records(half, "log-1", 3, written[len(written) // 2 :])) == state, seed
    assert positions_of({}) is None


def _next(random: Random, state: LanePositions | None) -> LanePositions:
    names: Sequence[str] = random.sample(["events.a", "events.b", "events.c"], random.randint(0, 3))
    if state is None or random.random() < 0.3:
        epoch = 1 if state is None else state.run.epoch + 1
        ids = {name: str(random.randint(1, 2)) for name in names}
        return taken_over(state, RunStamp(epoch, f"run-{epoch}"), lane=3, lanes=4, ids=ids)
    ids = {name: str(random.randint(1, 2)) for name in names}
    return moved(state, random.randint(0, 100), sent_to=ids)
