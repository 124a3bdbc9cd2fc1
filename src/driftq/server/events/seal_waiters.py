"""Those who asked that everything durable be sealed now, and wait for it."""

from __future__ import annotations

from driftq.errors import DriftQError
from driftq.server.requests import Reply


class Seals:
    """Each waits for a segment to be adopted, and is answered once."""

    def __init__(self) -> None:
        self._new: list[Reply] = []
        self._waiting: list[tuple[int, Reply]] = []

    def add(self, reply: Reply) -> None:
        self._new.append(reply)

    @property
    def asked(self) -> bool:
        """Whether somebody has not been given a segment yet."""
        return bool(self._new)

    @property
    def latest(self) -> int:
        """The last segment that somebody waits for; 0 when nobody waits."""
        return max((segment for segment, _ in self._waiting), default=0)

    def aim(self, segment: int) -> None:
        """What the new ones asked for is in the segments up to this one."""
        self._waiting += [(segment, reply) for reply in self._new]
        self._new = []

    def reached(self, segment: int) -> None:
        """Everything up to this segment is sealed and adopted."""
        reached = [reply for wanted, reply in self._waiting if wanted <= segment]
        self._waiting = [one for one in self._waiting if one[0] > segment]
        for reply in reached:
            reply(None)

    def fail(self, error: DriftQError) -> None:
        """It did not come about."""
        told = [*self._new, *(reply for _, reply in self._waiting)]
        self._new, self._waiting = [], []
        for reply in told:
            reply(error)
