"""The relay: publishes the dead letters of outboxes to their topics, and marks those that are stored.

Killed at any point it loses nothing: a dead letter that was published and not marked is published again,
under its id, by which repeats collapse. Only the relay of the newest run may mark: older ones stop.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence

from driftq.errors import RelayFenced, Unavailable
from driftq.model.dead_letter import HandlerDeadLetter
from driftq.model.topic import DEAD_LETTER_PREFIX
from driftq.pipeline.dead_letters.port import DeadLetterTopics
from driftq.sinks.dead_letters import DeadLetterOutbox

logger = logging.getLogger("driftq.pipeline.dead_letters")

PAGE = 100
EVERY_S = 10.0
FINISH_S, FINISH_ONCE_S = 4.0, 60.0
"""How long the end of a run waits for the last round: a run that is stopped has little time."""


class Relay:
    """The outboxes of one job, and the topics that their dead letters go to."""

    def __init__(
        self,
        name: str,
        outboxes: Sequence[DeadLetterOutbox],
        topics: DeadLetterTopics,
        *,
        first: Callable[[], object] | None = None,
        page: int = PAGE,
    ) -> None:
        self.name = name
        self._outboxes = outboxes
        self._topics = topics
        self._first = first
        """Called once, before the first round."""
        self._page = page
        self._refused: set[str] = set()
        """Those that were logged as refused."""

    def run(self) -> int:
        """Publish all that wait; returns how many. Raises RelayFenced, or an Unavailable.

        One that the transport refuses is logged once, stays in its outbox, and is tried in every round.
        """
        if self._first is not None:
            self._first()
            self._first = None
        return sum(self._empty(outbox) for outbox in self._outboxes)

    def close(self) -> None:
        self._topics.close()

    def _empty(self, outbox: DeadLetterOutbox) -> int:
        published = 0
        last = None
        while page := outbox.pending(limit=self._page, after=last):
            last = page[-1]
            problems = publish_all(self._topics, page)
            stored = [each for each, problem in zip(page, problems, strict=True) if problem is None]
            for each, problem in zip(page, problems, strict=True):
                if problem is not None:
                    logger.error(
                        "%s: dead letter %s of %s is not published: %s",
                        self.name,
                        each.id,
                        each.topic,
                        problem,
                    )
            if stored:
                outbox.mark_published(stored)  # A crash before this publishes them again.
            published += len(stored)
        return published


def publish_all(topics: DeadLetterTopics, dead_letters: Sequence[HandlerDeadLetter]) -> list[str | None]:
    """As `DeadLetterTopics.publish`, but for messages of dead-letter topics, which have none of their own."""
    own = [each for each in dead_letters if not each.topic.startswith(DEAD_LETTER_PREFIX)]
    problems = iter(topics.publish(own) if own else [])
    return [None if each.topic.startswith(DEAD_LETTER_PREFIX) else next(problems) for each in dead_letters]


class RelayThread:
    """Runs a relay at the start, when it is woken, and at intervals. It holds no batch up."""

    def __init__(
        self,
        relay: Relay,
        *,
        once: bool = False,
        every_s: float = EVERY_S,
        on_end: Callable[[], object] | None = None,
    ) -> None:
        self._relay = relay
        self._finish_s = FINISH_ONCE_S if once else FINISH_S
        self._on_end = on_end
        self._every_s = every_s
        self._woken = threading.Event()
        self._finishing = False
        self._failing = False
        self._thread = threading.Thread(target=self._work, name=f"{relay.name}-relay", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def wake(self) -> None:
        """There may be dead letters to publish."""
        self._woken.set()

    def finish(self) -> None:
        """One last round, and the end; what it cannot publish in time waits for the next run."""
        self._finishing = True
        self._woken.set()
        self._thread.join(self._finish_s)
        if self._thread.is_alive():
            logger.warning(
                "%s: the relay of dead letters is still busy; the next run goes on", self._relay.name
            )

    @property
    def is_alive(self) -> bool:
        return self._thread.is_alive()

    def _work(self) -> None:
        try:
            while True:
                last = self._finishing  # Before the round, so that the last one sees every dead letter.
                self._woken.clear()
                if not self._round() or last:
                    return
                if not self._finishing:
                    self._woken.wait(self._every_s)
        finally:
            self._relay.close()
            if self._on_end is not None:
                self._on_end()

    def _round(self) -> bool:
        """False if a newer run has taken over."""
        try:
            published = self._relay.run()
        except RelayFenced as fenced:
            logger.warning("%s", fenced)
            return False
        except Unavailable as away:
            if not self._failing:
                logger.warning("%s: dead letters wait to be published: %s", self._relay.name, away)
            self._failing = True
        except Exception:  # The thread has to go on: nothing else would publish them.
            logger.exception("%s: could not publish dead letters", self._relay.name)
        else:
            self._failing = False
            if published:
                logger.info("%s: %d dead letters published", self._relay.name, published)
        return True
