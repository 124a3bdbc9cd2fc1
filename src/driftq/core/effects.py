"""Which effects are under way, done or failed: the consumers' side of idempotency.

An identity is (tenant, requested topic, group, key). While its effect is under way it is held by one owner
for a lease, under a fencing token that grows with every grant. A finished effect is a message in an internal
topic, so that results live on disk; here there is only its fingerprint.
"""

import heapq

import msgspec

from driftq.core.keys import KeyTable, fingerprint

EFFECTS_TOPIC = "~effects"
"""Not a name that a client could give a topic."""

Identity = tuple[str, str, str, str]


class Pending(msgspec.Struct, gc=False):
    """An effect under way."""

    owner: str
    token: int
    until: int
    at: int
    """When it began or was extended."""


class Failed(msgspec.Struct, gc=False):
    """An effect that failed and may begin again."""

    error: str
    token: int
    at: int


class EffectTable:
    """Effects by identity."""

    def __init__(self, *, ttl_ms: int) -> None:
        self._ttl_ms = ttl_ms
        self.pending: dict[Identity, Pending] = {}
        self.failed: dict[Identity, Failed] = {}
        self.committed = KeyTable(ttl_ms=ttl_ms)
        self.next_token = 1
        self.leaving: list[tuple[int, Identity, int]] = []
        """Heap of when to look whether something is too old; one note a grant, however often extended."""

    def begin(self, identity: Identity, pending: Pending) -> None:
        """Grant it, or grant it for longer when the token is the one it has."""
        before = self.pending.get(identity)
        self.failed.pop(identity, None)
        self.pending[identity] = pending
        self.next_token = max(self.next_token, pending.token + 1)
        if before is None or before.token != pending.token:
            self._note(identity, pending.token, self._leaves_at(pending))

    def fail(self, identity: Identity, *, error: str, at: int) -> None:
        pending = self.pending.pop(identity)
        self.failed[identity] = Failed(error, pending.token, at)
        self._note(identity, pending.token, at + self._ttl_ms)

    def commit(self, identity: Identity) -> None:
        """It is over here; its message has claimed the fingerprint."""
        self.pending.pop(identity, None)

    def expire(self, now: int) -> None:
        """Forget what is older than its time to live. What is held under a live lease stays."""
        self.committed.expire(now)
        while self.leaving and self.leaving[0][0] <= now:
            _, identity, token = heapq.heappop(self.leaving)
            pending = self.pending.get(identity)
            if pending is not None and pending.token == token:
                if self._leaves_at(pending) <= now:
                    del self.pending[identity]
                else:
                    self._note(identity, token, self._leaves_at(pending))
            failed = self.failed.get(identity)
            if failed is not None and failed.token == token and failed.at + self._ttl_ms <= now:
                del self.failed[identity]

    def _leaves_at(self, pending: Pending) -> int:
        return max(pending.until, pending.at + self._ttl_ms)

    def _note(self, identity: Identity, token: int, at: int) -> None:
        heapq.heappush(self.leaving, (at, identity, token))
        if len(self.leaving) > 64 and len(self.leaving) > 4 * (len(self.pending) + len(self.failed)):
            self.leaving = [  # Most notes are of effects that are done.
                *((self._leaves_at(one), identity, one.token) for identity, one in self.pending.items()),
                *((one.at + self._ttl_ms, identity, one.token) for identity, one in self.failed.items()),
            ]
            heapq.heapify(self.leaving)


def effect_print(identity: Identity) -> int:
    """The fingerprint under which a finished effect is found."""
    return fingerprint(*identity)
