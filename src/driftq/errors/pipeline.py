"""Errors of the pipeline on Spark."""

from __future__ import annotations


class SparkUnusable(Exception):
    """Spark cannot be started here; `remedy` says what to install."""

    def __init__(self, problem: str, *, remedy: str) -> None:
        super().__init__(f"{problem}: {remedy}")
        self.problem = problem
        self.remedy = remedy


class MessagesExpired(Exception):
    """A query wants to go on where nothing is kept any more; `wanted` and `oldest` are places."""

    def __init__(self, source: str, *, wanted: int, oldest: int) -> None:
        super().__init__(
            f"{source} was to be read from {wanted}, but the oldest that is kept is {oldest}: "
            "what lies between was removed before it was read. "
            'To go on without it, set option("failOnDataLoss", "false"); '
            'to keep it the next time, name the query with option("reader", …)'
        )
        self.source = source
        self.wanted = wanted
        self.oldest = oldest


class PublisherReplaced(Exception):
    """Another publisher has begun for the same event log; this one must stop, and nothing is lost by it."""

    def __init__(self, publisher: str, *, epoch: int) -> None:
        super().__init__(
            f"another publisher has taken over from {publisher} (start {epoch}): "
            "run one publisher for an event log, and stop this one"
        )
        self.publisher = publisher
        self.epoch = epoch


class TopicBehind(Exception):
    """A topic has less than was confirmed while the publisher ran: deleted or restored under it."""

    def __init__(self, problem: str) -> None:
        super().__init__(f"a topic lost what it had: {problem}. Started again, the publisher fills it up")
        self.problem = problem


class TopicStartedOver(Exception):
    """A query was further in a topic than the topic goes: it was deleted and made again, or restored."""

    def __init__(self, source: str, *, wanted: int, end: int) -> None:
        super().__init__(
            f"{source} was to be read from {wanted}, but it ends at {end}: "
            "the topic was deleted and made again, or the server was restored from a backup. "
            'To begin at its start, set option("failOnDataLoss", "false") or give the query a new checkpoint'
        )
        self.source = source
        self.wanted = wanted
        self.end = end
