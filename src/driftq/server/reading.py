"""The rule for every read of stored messages for a reply: damage stops the server."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from driftq.errors import DatabaseDamaged, EventDamaged, LogCorrupt, NotConfirmed, WritingStopped

Damage = LogCorrupt | EventDamaged | DatabaseDamaged
"""A stored message or event is damaged."""


class Reading:
    """`with reading():` around every read of stored messages, on the engine's loop.

    Raises WritingStopped for damage, after telling the server to stop, and NotConfirmed when the disk cannot
    be read.
    """

    def __init__(self, on_damage: Callable[[LogCorrupt], None]) -> None:
        self._on_damage = on_damage

    @contextmanager
    def __call__(self) -> Iterator[None]:
        try:
            yield
        except LogCorrupt as damage:
            self._on_damage(damage)
            raise WritingStopped(str(damage)) from damage
        except OSError as error:
            raise NotConfirmed(str(error)) from error
