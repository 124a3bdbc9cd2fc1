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


class TopicBehind(Exception):
    """A topic lost confirmed messages while the publisher ran: it was deleted or restored."""

    def __init__(self, problem: str) -> None:
        super().__init__(
            f"a topic lost confirmed messages: {problem}. After a restart the publisher publishes them again"
        )
        self.problem = problem


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
