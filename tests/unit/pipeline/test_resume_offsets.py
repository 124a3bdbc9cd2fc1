"""Where a reader goes on: its positions count only for the topics that it read."""

import pytest

from driftq.errors import TopicAppeared
from driftq.pipeline.transport import TopicSubscription, identified, resume_offsets, topics_started_over
from driftq.sinks import TopicPartition

OLD, NEW = "driftq/a/1", "driftq/a/7"


def test_a_known_topic_goes_on_behind_its_last_offset() -> None:
    applied = {TopicPartition("orders", 0, OLD): 41, TopicPartition("orders", 1, OLD): 7}
    following = resume_offsets(applied, {"orders": OLD})
    assert following == {TopicPartition("orders", 0, OLD): 42, TopicPartition("orders", 1, OLD): 8}


@pytest.mark.clause("V10")
def test_a_topic_that_was_created_again_is_read_from_its_start() -> None:
    assert resume_offsets({TopicPartition("orders", 0, OLD): 41}, {"orders": NEW}) == {}


@pytest.mark.clause("V10")
def test_another_transport_is_read_from_its_start() -> None:
    assert resume_offsets({TopicPartition("orders", 0, OLD): 41}, {"orders": "kafka/c/t"}) == {}


def test_a_position_of_an_earlier_version_counts_for_driftq_alone() -> None:
    applied = {TopicPartition("orders", 0): 41}
    assert resume_offsets(applied, {"orders": OLD}) == {TopicPartition("orders", 0, OLD): 42}
    assert resume_offsets(applied, {"orders": "kafka/c/t"}) == {}


@pytest.mark.parametrize("adopted_first", [True, False])
def test_a_position_under_the_identity_comes_before_an_adopted_one(adopted_first: bool) -> None:
    pairs = [(TopicPartition("orders", 0), 90), (TopicPartition("orders", 0, OLD), 41)]
    applied = dict(pairs if adopted_first else pairs[::-1])
    assert resume_offsets(applied, {"orders": OLD}) == {TopicPartition("orders", 0, OLD): 42}


def test_a_topic_that_is_gone_has_no_offset() -> None:
    assert resume_offsets({TopicPartition("orders", 0, OLD): 41}, {}) == {}


class _Appearing:
    """A transport on which a topic may be another one by the time its identity is looked up."""

    name = "kafka"

    def identities(self, subscription: TopicSubscription) -> dict[str, str]:
        return {}

    def late_identity(self, topic: str) -> str:
        raise TopicAppeared(topic)

    def stream(self, *_: object, **__: object) -> None:
        raise AssertionError("nothing is read here")

    def close(self) -> None: ...


@pytest.mark.clause("V10")
def test_a_batch_moves_the_positions_of_the_topics_that_the_query_started_with() -> None:
    moved = identified({TopicPartition("orders", 0): 5}, {"orders": OLD}, _Appearing())  # type: ignore[arg-type]
    assert moved == {TopicPartition("orders", 0, OLD): 5}
    with pytest.raises(TopicAppeared):
        identified({TopicPartition("refunds", 0): 5}, {"orders": OLD}, _Appearing())  # type: ignore[arg-type]


@pytest.mark.clause("V10")
@pytest.mark.parametrize(
    ("read", "now", "started_over"),
    [
        (OLD, OLD, False),
        (OLD, NEW, False),  # The same server goes on behind the offsets of the deleted topic.
        ("", OLD, False),
        ("driftq/b/1", OLD, True),
        (OLD, "kafka/c/t", True),
        ("kafka/c/t", "kafka/c/u", True),
        ("kafka/c/t", "kafka/c/t", False),
    ],
)
def test_offsets_go_on_only_where_the_server_continues_them(read: str, now: str, started_over: bool) -> None:
    applied = {TopicPartition("orders", 0, read): 41}
    assert topics_started_over(applied, {"orders": now}) == ({"orders"} if started_over else set())


def test_a_topic_that_was_read_before_and_after_has_not_started_over() -> None:
    applied = {TopicPartition("orders", 0, "kafka/c/t"): 41, TopicPartition("orders", 0, "kafka/c/u"): 2}
    assert topics_started_over(applied, {"orders": "kafka/c/u"}) == set()
