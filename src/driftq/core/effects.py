"""Which effects are under way, done or failed: the consumers' side of idempotency.

An identity is (tenant, requested topic, group, key). While its effect is under way it is held by one owner
for a lease, under a fencing token that grows with every grant. A finished effect is a message in an internal
topic, so that results live on disk; here there is only its fingerprint.

The identity names the topic; the effect belongs to the topic's id. After a topic is deleted and recreated
there may be two effects with one identity, and neither blocks the other.
"""

import heapq

import msgspec

from driftq.core.keys import KeyTable, fingerprint

EFFECTS_TOPIC = "~effects"
"""Not a name that a client could give a topic."""

Identity = tuple[str, str, str, str]

EffectKey = tuple[Identity, int]
"""An identity and the id of its topic; 0 where no topic had that name, or from before ids were kept."""

ANY_TOPIC = range(1 << 62)


def belongs(topic: int, to: range) -> bool:
    """Whether an effect of this topic id is among those of these topics."""
    return topic == 0 or topic in to


class PendingEffect(msgspec.Struct, gc=False):
    """An effect under way."""

    owner: str
    token: int
    until: int
    at: int
    """When it began or was extended."""
    topic: int = 0


class FailedEffect(msgspec.Struct, gc=False):
    """An effect that failed and may begin again."""

    error: str
    token: int
    at: int
    topic: int = 0


class EffectTable:
    """Effects by identity and topic."""

    def __init__(self, *, ttl_ms: int) -> None:
        self._ttl_ms = ttl_ms
        self.pending: dict[EffectKey, PendingEffect] = {}
        self.failed: dict[EffectKey, FailedEffect] = {}
        self._keys: dict[int, EffectKey] = {}
        """The effect of each token in one of these two."""
        self.committed = KeyTable(ttl_ms=ttl_ms)
        self.next_token = 1
        self.leaving: list[tuple[int, Identity, int]] = []
        """Heap of the times to check for expiry; one entry for each grant, however often extended."""

    def pending_for(self, identity: Identity, topic: int) -> PendingEffect | None:
        """The grant of this identity that counts for the topic."""
        return self.pending.get((identity, topic)) or self.pending.get((identity, 0))

    def last_failed(self, identity: Identity, topic: int) -> FailedEffect | None:
        """The failure of this identity that counts for the topic."""
        return self.failed.get((identity, topic)) or self.failed.get((identity, 0))

    def pending_under(self, identity: Identity, token: int) -> PendingEffect | None:
        """The grant of this token, whichever topic has the name by now."""
        key = self._keys.get(token)
        return self.pending.get(key) if key is not None and key[0] == identity else None

    def failed_under(self, identity: Identity, token: int) -> FailedEffect | None:
        """The failure that was reported under this token."""
        key = self._keys.get(token)
        return self.failed.get(key) if key is not None and key[0] == identity else None

    def begin(self, identity: Identity, pending: PendingEffect) -> None:
        """Grant it, or extend the grant when the token is its current one."""
        key = (identity, pending.topic)
        before = self._drop((identity, 0)) if pending.topic else None
        before = self._drop(key) or before
        self.pending[key] = pending
        self._keys[pending.token] = key
        self.next_token = max(self.next_token, pending.token + 1)
        if before is None or before.token != pending.token:
            self._note(identity, pending.token, self._leaves_at(pending))

    def fail(self, identity: Identity, *, topic: int, error: str, at: int) -> None:
        key = (identity, topic)
        pending = self.pending.pop(key)
        self.failed[key] = FailedEffect(error, pending.token, at, topic)
        self._note(identity, pending.token, at + self._ttl_ms)

    def commit(self, identity: Identity, *, topic: int) -> None:
        """Drop the grant; the committed effect's message has claimed the fingerprint."""
        self._drop((identity, topic))

    def restore(
        self, pending: list[tuple[Identity, PendingEffect]], failed: list[tuple[Identity, FailedEffect]]
    ) -> None:
        """Load a snapshot's effects that are not done."""
        self.pending.update({(identity, one.topic): one for identity, one in pending})
        self.failed.update({(identity, one.topic): one for identity, one in failed})
        for table in (self.pending, self.failed):
            self._keys.update({one.token: key for key, one in table.items()})

    def _drop(self, key: EffectKey) -> PendingEffect | None:
        """Drop the entry of this key; returns the grant, if it was one."""
        pending, failed = self.pending.pop(key, None), self.failed.pop(key, None)
        for one in (pending, failed):
            if one is not None:
                del self._keys[one.token]
        return pending

    def expire(self, now: int) -> None:
        """Drop entries older than their time to live. An effect under a live lease stays."""
        self.committed.expire(now)
        while self.leaving and self.leaving[0][0] <= now:
            _, identity, token = heapq.heappop(self.leaving)
            key = self._keys.get(token)
            if key is None:
                continue
            pending = self.pending.get(key)
            failed = self.failed.get(key)
            if pending is not None and self._leaves_at(pending) > now:
                self._note(identity, token, self._leaves_at(pending))
            elif pending is not None or (failed is not None and failed.at + self._ttl_ms <= now):
                self._drop(key)

    def _leaves_at(self, pending: PendingEffect) -> int:
        return max(pending.until, pending.at + self._ttl_ms)

    def _note(self, identity: Identity, token: int, at: int) -> None:
        heapq.heappush(self.leaving, (at, identity, token))
        if len(self.leaving) > 64 and len(self.leaving) > 4 * (len(self.pending) + len(self.failed)):
            self.leaving = [  # Most entries are of effects that are done.
                *((self._leaves_at(one), key[0], one.token) for key, one in self.pending.items()),
                *((one.at + self._ttl_ms, key[0], one.token) for key, one in self.failed.items()),
            ]
            heapq.heapify(self.leaving)


def effect_print(identity: Identity) -> int:
    """The fingerprint under which a finished effect is found."""
    return fingerprint(*identity)
