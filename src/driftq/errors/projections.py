"""Read models: fencing of their writers, and missing or unusable models."""

from __future__ import annotations

from driftq.errors.kinds import NotFound, Unavailable


class ReadModelNotFound(NotFound):
    """No projection has ever written under this name."""

    def __init__(self, name: str, *, place: str) -> None:
        super().__init__(f"there is no read model {name!r} in {place}")
        self.name = name
        self.place = place


class ReadModelUnavailable(Unavailable):
    """The target of a read model cannot be written or read now. What was in progress is to be repeated."""

    reason = "read_model_unavailable"

    def __init__(self, place: str, *, cause: str) -> None:
        super().__init__(f"the read model in {place} is not available ({cause})")
        self.place = place
        self.cause = cause


class DocumentRefused(ValueError):
    """A target will never store these rows. No position has moved past them."""

    def __init__(self, place: str, *, aggregate: str, problem: str, count: int = 1) -> None:
        others = f", and {count - 1} others" if count > 1 else ""
        super().__init__(f"{place} refuses {aggregate}{others}: {problem}")
        self.place = place
        self.aggregate = aggregate
        self.problem = problem
        self.count = count


class ProjectionError(Exception):
    """A projection cannot go on; its unfinished batch has no effect."""


class ProjectionFenced(ProjectionError):
    """Another run of the projection has taken over: this one must end and must not restart itself."""

    def __init__(self, name: str, *, epoch: int, current: int) -> None:
        super().__init__(f"run {epoch} of projection {name!r} was replaced by run {current}")
        self.name = name
        self.epoch = epoch
        self.current = current


class ReadModelSwapped(ProjectionError):
    """A rebuild has replaced this run's read model: start again from the new model's positions."""

    def __init__(self, name: str) -> None:
        super().__init__(f"the read model {name!r} was rebuilt; the projection goes on from its positions")
        self.name = name


class FoldFailed(ProjectionError):
    """A fold returned a value that is not a read model."""

    def __init__(self, name: str, *, problem: str) -> None:
        super().__init__(f"the fold of projection {name!r} {problem}")
        self.name = name
        self.problem = problem


class OffsetsStartOver(ProjectionError):
    """A projection by key finds another topic under the name: its offsets do not tell what is newer."""

    def __init__(self, topic: str, *, projection: str) -> None:
        super().__init__(
            f"topic {topic!r} is not the one that {projection!r} has read: its offsets start over, and for a "
            f"projection by key they decide which message is newer. "
            f"Run: driftq pipeline run rebuild --name {projection}"
        )
        self.topic = topic
        self.projection = projection


class MessagesGone(ProjectionError):
    """A topic no longer holds its oldest messages, so its read model cannot be rebuilt."""

    def __init__(self, topic: str, *, oldest: int, projection: str) -> None:
        super().__init__(
            f"topic {topic!r} begins at offset {oldest}, retention has removed its older messages: "
            f"rebuilding {projection!r} from the rest would lose their effect"
        )
        self.topic = topic
        self.oldest = oldest
        self.projection = projection
