"""Messages on their way in: they wait for a turn, and for the disk where a key has to be compared."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from driftq.core.keys import KeyTable
from driftq.server.desks import Return
from driftq.server.lookup import MessageLookup
from driftq.server.requests import ProduceRequest

COMMIT_BYTES_MAX = 8 << 20
COMMIT_MESSAGES_MAX = 2_000
"""So many are decided in one go, at most: everybody else waits meanwhile, and the disk for the next ones."""


class Intake:
    """Produce requests that nobody has decided yet."""

    def __init__(self, lookup: MessageLookup, *, come_back: Return) -> None:
        self.asked: list[ProduceRequest] = []
        self._lookup = lookup
        self._come_back = come_back

    def take(self, keys: KeyTable) -> tuple[Sequence[ProduceRequest], bool]:
        """Those that can be decided now; the others come again when their reads are done.

        Also whether their keys are known to be new, every one: neither in the table nor twice among them.
        """
        requests = self._take_some()
        prints = [one.fingerprint for request in requests for one in request.commands if one.fingerprint]
        if not prints:
            return requests, True
        if keys.has_none(prints):
            return requests, len(set(prints)) == len(prints)
        return [request for request in requests if self._is_warm(request, keys)], False

    def take_all(self) -> list[ProduceRequest]:
        taken, self.asked = self.asked, []
        return taken

    def _take_some(self) -> list[ProduceRequest]:
        """As many as make one commit of a bounded size."""
        size = messages = 0
        for count, request in enumerate(self.asked, start=1):
            commands = request.commands
            messages += len(commands)
            if len(commands) == 1:
                size += len(commands[0].entry)
            else:
                size += sum([len(command.entry) for command in commands])
            if size > COMMIT_BYTES_MAX or messages >= COMMIT_MESSAGES_MAX:
                taken = self.asked[:count]
                del self.asked[:count]
                return taken
        return self.take_all()

    def _is_warm(self, request: ProduceRequest, keys: KeyTable) -> bool:
        """Whether all that its keys may be compared with is at hand; if not, that is on its way."""
        cold = self._lookup.cold(
            claim
            for command in request.commands
            if command.fingerprint
            for claim in keys.find(command.fingerprint)
        )
        if not cold:
            return True
        put = partial(self._put, request)
        self._lookup.fetch(cold, partial(self._come_back, put, request.reply))
        return False

    def _put(self, request: ProduceRequest) -> None:
        self.asked.append(request)
