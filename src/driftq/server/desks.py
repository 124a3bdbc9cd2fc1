"""Jobs, effects and dead letters beside the messages: three desks that take part in the engine's turn."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from driftq.errors import DriftQError, NotConfirmed
from driftq.server.counters import Counters
from driftq.server.deliver.consumers import Consumers
from driftq.server.dlq.stage import DlqStage, LetterAsk
from driftq.server.effects.stage import EffectAsk, EffectsStage
from driftq.server.jobs.entries import JobEntries
from driftq.server.jobs.requests import JobAsk
from driftq.server.jobs.stage import JobsStage
from driftq.server.lookup import MessageLookup
from driftq.server.requests import Reply
from driftq.storage.journal import Journal

Replies = list[tuple[Reply, Any]]
Return = Callable[[Callable[[], None], Reply, NotConfirmed | None], None]
"""Takes a request that waited for a read: how to put it back, and whom to tell of an error."""


class Desks:
    """What is asked here is decided in the same turn and made durable by the same commit as all the rest."""

    def __init__(
        self,
        journal: Journal,
        lookup: MessageLookup,
        dispatcher: Consumers,
        *,
        counters: Counters,
        draw: Callable[[], float],
        come_back: Return,
    ) -> None:
        self.jobs = JobsStage(
            journal,
            JobEntries(lookup),
            counters=counters,
            draw=draw,
            again=lambda request, error: come_back(lambda: self.jobs.ask(request), request.reply, error),
        )
        self.effects = EffectsStage(
            journal,
            lookup,
            again=lambda request, error: come_back(
                lambda: self.effects.asked.append(request), request.reply, error
            ),
        )
        self.letters = DlqStage(
            journal,
            lookup,
            dispatcher,
            counters,
            again=lambda request, error: come_back(
                lambda: self.letters.asked.append(request), request.reply, error
            ),
        )

    def ask(self, request: JobAsk | EffectAsk | LetterAsk) -> None:
        if isinstance(request, EffectAsk):
            self.effects.asked.append(request)
        elif isinstance(request, LetterAsk):
            self.letters.asked.append(request)
        else:
            self.jobs.ask(request)

    def turn(self, replies: Replies, now: int, *, wall: int, quiet: bool) -> None:
        self.effects.turn(replies, now)
        self.letters.turn(replies, now, wall=wall)
        self.jobs.turn(replies, now, wall=wall, quiet=quiet)

    def is_asked(self) -> bool:
        return bool(self.effects.asked or self.letters.asked) or self.jobs.is_asked()

    def refuse(self, error: DriftQError) -> None:
        """Answer everything that waits with this."""
        asked = [*self.effects.asked, *self.letters.asked]
        self.effects.asked.clear()
        self.letters.asked.clear()
        for request in asked:
            request.reply(error)
        self.jobs.refuse(error)
