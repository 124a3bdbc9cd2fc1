"""What an effect has to know of the run that performs it."""

from __future__ import annotations

import hashlib
from typing import Protocol

import msgspec

from driftq.registry import Effect


class EffectRun(Protocol):
    """One run of a handler: the context of a message or of an event."""

    @property
    def handler(self) -> str:
        """Its name, the same in every run."""

    @property
    def effect_id(self) -> str:
        """What it runs for, the same at every attempt: the event's id, or the message's key or place."""

    @property
    def effect(self) -> Effect:
        """As the handler is declared."""

    @property
    def token(self) -> int:
        """The fencing token of the claim; 0 where there is no claim."""

    @property
    def lost(self) -> bool:
        """The lease is over: another worker may run for the same event."""


def key_of(run: EffectRun, part: str = "") -> str:
    """The name of an effect in systems that recognise repeats: 64 characters of hexadecimal digits."""
    return hashlib.sha256(msgspec.json.encode([run.handler, run.effect_id, part])).hexdigest()
