"""Errors of the pipeline on Spark."""

from __future__ import annotations


class SparkUnusable(Exception):
    """Spark cannot be started here; `remedy` says what to install."""

    def __init__(self, problem: str, *, remedy: str) -> None:
        super().__init__(f"{problem}: {remedy}")
        self.problem = problem
        self.remedy = remedy


class MessagesExpired(Exception):
    """A query resumes at a position that retention has removed; `wanted` and `oldest` are positions."""

    def __init__(self, source: str, *, wanted: int, oldest: int) -> None:
        super().__init__(
            f"{source} was to be read from {wanted}, but the oldest stored message is {oldest}: "
            "the messages between were removed before they were read. "
            'To go on without them, set option("failOnDataLoss", "false"); '
            'to keep them the next time, name the query with option("reader", …)'
        )
        self.source = source
        self.wanted = wanted
        self.oldest = oldest


class PublisherReplaced(Exception):
    """Another publisher has started for the same event log; this one must stop. Nothing is lost."""

    def __init__(self, publisher: str, *, epoch: int) -> None:
        super().__init__(
            f"another publisher has taken over from {publisher} (start {epoch}): "
            "run one publisher for an event log, and stop this one"
        )
        self.publisher = publisher
        self.epoch = epoch


class BridgeReplaced(Exception):
    """Another bridge between the same topics has started; this one must stop. Nothing is lost."""

    def __init__(self, route: str) -> None:
        super().__init__(f"another bridge {route} has taken over: run one of them, and stop this one")
        self.route = route


class TopicBehind(Exception):
    """A topic lost confirmed messages while they were sent there: it was deleted or restored."""

    def __init__(self, problem: str) -> None:
        super().__init__(f"a topic lost confirmed messages: {problem}. After a restart they are sent again")
        self.problem = problem


class TopicAppeared(Exception):
    """A query read a topic that did not exist when it started: it starts again, and then knows the topic."""

    def __init__(self, topic: str) -> None:
        super().__init__(f"topic {topic!r} appeared while the query was running: the query starts again")
        self.topic = topic


class BatchOutOfOrder(Exception):
    """A batch is not the next part of the event log, or not all of it. Nothing of it was published."""

    def __init__(self, *, expected: int, first: int, last: int, count: int) -> None:
        super().__init__(
            f"a batch of the event log has {count} events from {first} to {last}, and {expected} is the next "
            "position: nothing of it counts as published"
        )
        self.expected = expected
        self.first = first
        self.last = last
        self.count = count


class OffsetOutOfOrder(Exception):
    """A bridge read an offset that is not after the last one. Nothing from there on is copied."""

    def __init__(self, partition: int, *, offset: int, after: int) -> None:
        super().__init__(
            f"offset {offset} of partition {partition} came after offset {after}: it could not be told from "
            "one that was copied before, so nothing of the batch from there on is copied"
        )
        self.partition = partition
        self.offset = offset
        self.after = after


class PositionsAhead(Exception):
    """More was published of an event log than it has: the log is an older copy."""

    def __init__(self, *, published: int, end: int) -> None:
        super().__init__(
            f"the event log ends at {end}, and was published up to {published}: it was restored from a "
            "backup, and new events would take positions that count as published. Remove the object "
            "identity/event-log beside its segments; then everything is published again"
        )
        self.published = published
        self.end = end


class TopicStartedOver(Exception):
    """A query's offset is past the end of its topic: the topic was deleted and recreated, or restored."""

    def __init__(self, source: str, *, wanted: int, end: int) -> None:
        super().__init__(
            f"{source} was to be read from {wanted}, but it ends at {end}: "
            "the topic was deleted and recreated, or the server was restored from a backup. "
            'To begin at its start, set option("failOnDataLoss", "false") or give the query a new checkpoint'
        )
        self.source = source
        self.wanted = wanted
        self.end = end


class RelayFenced(Exception):
    """A newer run relays these dead letters; this run's relay stops. Nothing is lost."""

    def __init__(self, what: str, *, epoch: int, current: int) -> None:
        super().__init__(f"the dead letters of {what} are relayed by run {current}, no longer by run {epoch}")
        self.what = what
        self.epoch = epoch
        self.current = current
