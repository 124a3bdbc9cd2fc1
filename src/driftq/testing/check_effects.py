"""Judges effects: one owner at a time, growing tokens, and one final commit."""

from __future__ import annotations

from dataclasses import dataclass, field

from driftq.core.decide.effects import CommittedEffect, HeldEffect, LapsedEffect
from driftq.core.effects import Identity
from driftq.core.records import CRASH_UNKNOWN, EffectBegun
from driftq.errors import DriftQError, EffectSuperseded, Unavailable
from driftq.testing.checkers import require


@dataclass(slots=True)
class _Effect:
    token: int = 0
    held_until: int = 0
    done_by: int | None = None
    results: dict[int, str | None] = field(default_factory=dict)
    """The result that each token tried to commit."""
    unknown_asked: bool = False
    """Whether anyone has asked for it under terms that a crash leaves unknown."""
    left_open: bool = False
    """Whether the last known grant has such terms, and nobody has tried to end it since."""


class EffectChecker:
    """Observes begins, commits and failures with their answers. Times are the server's own."""

    def __init__(self) -> None:
        self.effects: dict[Identity, _Effect] = {}
        self._highest = 0

    def _of(self, identity: Identity) -> _Effect:
        return self.effects.setdefault(identity, _Effect())

    def asked_to_begin(self, identity: Identity, *, crash: int) -> None:
        self._of(identity).unknown_asked |= crash == CRASH_UNKNOWN

    def begun(
        self, identity: Identity, answer: EffectBegun | HeldEffect | LapsedEffect | CommittedEffect
    ) -> None:
        effect = self._of(identity)
        if isinstance(answer, LapsedEffect):
            require(effect.unknown_asked, "I11", f"{identity[3]} is unknown, and was never declared so")
            require(effect.done_by is None, "I11", f"{identity[3]} was done under {effect.done_by}")
        elif isinstance(answer, EffectBegun):
            require(not effect.left_open, "I11", f"{identity[3]} is unknown, and has begun again")
            effect.left_open = answer.terms.crash == CRASH_UNKNOWN
            name = f"{identity[3]} under token {answer.token}"
            require(answer.token > self._highest, "I6", f"{name}: {self._highest} was given before")
            self._highest = answer.token
            require(effect.done_by is None, "I6", f"{name} was done under {effect.done_by}")
            require(answer.at >= effect.held_until, "I6", f"{name} is held until {effect.held_until}")
            effect.token, effect.held_until = answer.token, answer.at + answer.lease_ms
        elif isinstance(answer, HeldEffect):
            require(effect.done_by is None, "I6", f"{identity[3]} was done and is said to be held")
        else:
            known = effect.results.get(answer.token, "")
            asked = answer.token in effect.results and answer.result == known
            require(
                asked, "I6", f"{identity[3]} was done by {answer.token} with {answer.result!r}, not {known!r}"
            )
            require(effect.done_by in (None, answer.token), "I6", f"{identity[3]}: done by {effect.done_by}")
            effect.done_by = answer.token

    def committing(self, identity: Identity, token: int, result: str | None) -> None:
        self._of(identity).results.setdefault(token, result)

    def resolving(self, identity: Identity) -> None:
        """Someone says that it did not happen; whether the server got that is unknown."""
        self._of(identity).left_open = False

    def committed(self, identity: Identity, token: int, answer: DriftQError | None, *, now: int) -> None:
        effect = self._of(identity)
        name = f"{identity[3]} under token {token}"
        if answer is None:
            require(effect.done_by in (None, token), "I6", f"{name} was done under {effect.done_by}")
            require(token >= effect.token, "I6", f"{name} is done, but {effect.token} came later")
            effect.done_by = token
        elif not isinstance(answer, Unavailable):
            require(isinstance(answer, EffectSuperseded), "I6", f"{name}: {answer!r}")
            surely = token == effect.token and now < effect.held_until
            require(not surely, "I6", f"{name} is held until {effect.held_until} and was refused at {now}")

    def loosened(self, identity: Identity) -> None:
        """Its holder reported a failure; whether the server got it is unknown."""
        self._of(identity).held_until = 0
        self._of(identity).left_open = False
