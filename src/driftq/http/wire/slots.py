"""The places that connections have, and who gives his up when all are taken.

A newcomer gets the place of the connection that has been idle longest, else that of the request that has come
most slowly so far. Streams, and requests that wait for their answers, stay. Who should go is worked out once
for many newcomers, and where nobody was found, a second later at the earliest.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from driftq.http.wire.connection import ServerConnection


class Places:
    """Counts those that stay; those on their way out hold no place."""

    def __init__(self, connections: dict[ServerConnection, None], *, places: int) -> None:
        """`connections` are all that are open, the oldest first; the newcomer is not among them yet."""
        self._connections = connections
        self._places = places
        self._departing: set[ServerConnection] = set()
        self._weakest: list[ServerConnection] = []
        """Who may go, the first to go at the end."""
        self._may_look = True

    @property
    def is_flooded(self) -> bool:
        return len(self._departing) >= self._places

    def take_one(self) -> bool:
        """Whether a newcomer may stay; somebody else may have to go for it."""
        if len(self._connections) - len(self._departing) < self._places:
            return True
        weakest = None if self.is_flooded else self._next_to_go()
        if weakest is None:
            return False
        weakest.give_way()
        return True

    def free(self, connection: ServerConnection) -> None:
        """It will be closed."""
        self._departing.add(connection)

    def gone(self, connection: ServerConnection) -> None:
        self._departing.discard(connection)

    def second(self) -> None:
        """A second has passed: things may have changed, and nobody is kept in memory for long."""
        self._weakest.clear()
        self._may_look = True

    def _next_to_go(self) -> ServerConnection | None:
        if not self._weakest and self._may_look:
            newest_first = list(reversed(self._connections))
            idle = [one for one in newest_first if one.is_idle]
            slow = [one for one in newest_first if one.awaits_request]
            idle.sort(key=lambda one: one.idle_s)
            slow.sort(key=lambda one: -one.bytes_per_s)
            self._weakest = slow + idle
            self._may_look = bool(self._weakest)
        while self._weakest:
            weakest = self._weakest.pop()
            if weakest.is_idle or weakest.awaits_request:
                return weakest
        return None
