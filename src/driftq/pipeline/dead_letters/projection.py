"""The way of a projection's dead letters from a batch to `dlq.<topic>`.

Where the target is SQL they are outbox rows in the transaction that moves the position, and a relay publishes
them later. Any other target gets them when their topic has them: the position moves only after that.
"""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from driftq.model.dead_letter import FailedStage
from driftq.pipeline.dead_letters.port import DeadLetterTopics
from driftq.pipeline.dead_letters.relay import Relay, RelayThread, publish_all
from driftq.sinks import ProjectionDeadLetter, ReadModel, ReadModelSink, WriterEpoch
from driftq.sinks.dead_letters import HasOutbox, handler_dead_letter

logger = logging.getLogger("driftq.pipeline.dead_letters")


@dataclass(frozen=True, slots=True)
class DeadLetterContext:
    """What a dead letter says beside its message and its error. Plain values: it travels to Spark's tasks."""

    identities: Mapping[str, str]
    """Of the topics, by name."""
    attempts: int

    def complete(self, dead: ProjectionDeadLetter) -> ProjectionDeadLetter:
        attempts = 1 if dead.stage == FailedStage.DECODE else self.attempts
        return dead._replace(identity=self.identities.get(dead.topic, ""), attempts=attempts)


class ProjectionDeadLetters:
    """What one run of a projection, or of a rebuild, does with its dead letters."""

    def __init__(
        self,
        topics: DeadLetterTopics,
        *,
        identities: Mapping[str, str],
        retries: int,
        counts: Counter[str] | None = None,
    ) -> None:
        self._topics = topics
        self._identities = identities
        """Of the topics, as they were before anything was read."""
        self._attempts = retries + 1
        self._relay: RelayThread | None = None
        self._counts: Counter[str] = Counter() if counts is None else counts

    def start_relay(
        self,
        projection: str,
        targets: Iterable[tuple[ReadModelSink, WriterEpoch]],
        topics: DeadLetterTopics,
        *,
        once: bool,
    ) -> None:
        """Publish what the outboxes of these targets have, now and later; earlier runs' relays stop.

        The relay has connections of its own, so that it never waits for a batch to free one.
        """
        models = [(sink.connect(projection), writer_epoch) for sink, writer_epoch in targets]
        outboxes = [model.outbox(epoch) for model, epoch in models if isinstance(model, HasOutbox)]
        relay = Relay(f"projection-{projection}", outboxes, topics)

        def close_models() -> None:
            for model, _ in models:
                model.close()

        self._relay = RelayThread(relay, once=once, on_end=close_models)
        self._relay.start()

    @property
    def context(self) -> DeadLetterContext:
        """As it is now: topics that appear later are added."""
        return DeadLetterContext(dict(self._identities), self._attempts)

    def ready(
        self, model: ReadModel, dead_letters: Sequence[ProjectionDeadLetter]
    ) -> list[ProjectionDeadLetter]:
        """Complete, and durable unless the read model stores them for a relay. Raises an Unavailable.

        May be called again with the same ones: their ids are the same.
        """
        complete = list(map(self.context.complete, dead_letters))
        if complete and not isinstance(model, HasOutbox):
            self._publish(model, complete)
        return complete

    def applied(self, dead_letters: int) -> None:
        """A batch with so many dead letters is applied."""
        self._counts["dead"] += dead_letters
        if self._relay is not None:
            self._relay.wake()

    def close(self) -> None:
        """When no batch is running. The relay publishes what it can before."""
        if self._relay is not None:
            self._relay.finish()
            self._relay = None
        self._topics.close()

    def _publish(self, model: ReadModel, dead_letters: Sequence[ProjectionDeadLetter]) -> None:
        now = time.time_ns() // 1_000_000
        letters = [handler_dead_letter(model.name, dead, at=now) for dead in dead_letters]
        for letter, problem in zip(letters, publish_all(self._topics, letters), strict=True):
            if problem is not None:  # The read model has it, with its text.
                logger.error("dead letter %s of %s is not published: %s", letter.id, letter.topic, problem)
