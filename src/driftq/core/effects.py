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
from driftq.core.records import NO_TERMS, EffectTerms

EFFECTS_TOPIC = "~effects"
"""Not a name that a client could give a topic."""
LONG_EFFECTS_TOPIC = "~effects-long"
"""For results that last longer than those of `EFFECTS_TOPIC`."""
LONG_TTL_MS = 90 * 24 * 3600 * 1000
STEPS_TOPIC = "steps"
"""The topic in the identity of a step; the key there is `step:RUN_ID/STEP`."""

Identity = tuple[str, str, str, str]

EffectKey = tuple[Identity, int]
"""An identity and the id of its topic; 0 where no topic had that name, or from before ids were kept."""

ANY_TOPIC = range(1 << 62)


def belongs(topic: int, to: range) -> bool:
    """Whether an effect of this topic id is among those of these topics."""
    return topic == 0 or topic in to


def step_of(identity: Identity) -> tuple[str, str] | None:
    """Run and step of a step's identity; None for any other effect."""
    if identity[1] != STEPS_TOPIC or not identity[3].startswith("step:"):
        return None
    run_id, slash, step = identity[3].removeprefix("step:").partition("/")
    return (run_id, step) if slash else None


class PendingEffect(msgspec.Struct, gc=False):
    """An effect under way."""

    owner: str
    token: int
    until: int
    at: int
    """When it began or was extended."""
    topic: int = 0
    terms: EffectTerms = NO_TERMS
    attempt: int = 1
    """How often it has begun, this time included."""


class FailedEffect(msgspec.Struct, gc=False):
    """An effect that failed and may begin again."""

    error: str
    token: int
    at: int
    topic: int = 0
    terms: EffectTerms = NO_TERMS
    attempt: int = 1


class EffectTable:
    """Effects by identity and topic."""

    def __init__(self, *, ttl_ms: int) -> None:
        self._ttl_ms = ttl_ms
        self.pending: dict[EffectKey, PendingEffect] = {}
        self.failed: dict[EffectKey, FailedEffect] = {}
        self._keys: dict[int, EffectKey] = {}
        """The effect of each token in one of these two."""
        self.committed = KeyTable(ttl_ms=ttl_ms)
        self.long = KeyTable(ttl_ms=max(ttl_ms, LONG_TTL_MS))
        """Committed effects whose results last longer than `ttl_ms`."""
        self.steps_done = KeyTable(ttl_ms=max(ttl_ms, LONG_TTL_MS))
        """Committed steps, by the fingerprint of their run."""
        self._open_steps: dict[str, dict[EffectKey, None]] = {}
        """Steps in `pending` and `failed`, by run."""
        self.next_token = 1
        self.leaving: list[tuple[int, Identity, int]] = []
        """Heap of the times to check for expiry; one entry for each grant, however often extended."""

    @property
    def count(self) -> int:
        """How many effects are remembered, apart from those that failed."""
        return len(self.committed) + len(self.long) + len(self.pending)

    @property
    def ttl_ms(self) -> int:
        """How long a result lasts that declared no time of its own."""
        return self._ttl_ms

    def open_steps(self, run_id: str) -> list[EffectKey]:
        """The steps of a run that are under way or have failed, in the order in which they began."""
        return list(self._open_steps.get(run_id, ()))

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
        failed = self.failed.get(key)
        before = self._drop((identity, 0)) if pending.topic else None
        before = self._drop(key) or before
        if before is not None:
            pending.attempt = before.attempt + (before.token != pending.token)
        elif failed is not None:
            pending.attempt = failed.attempt + 1
        self.pending[key] = pending
        self._keep_key(pending.token, key)
        self.next_token = max(self.next_token, pending.token + 1)
        if before is None or before.token != pending.token:
            self._note(identity, pending.token, self._leaves_at(pending))

    def fail(self, identity: Identity, *, topic: int, error: str, at: int) -> None:
        key = (identity, topic)
        pending = self.pending.pop(key)
        self.failed[key] = FailedEffect(error, pending.token, at, topic, pending.terms, pending.attempt)
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
            for key, one in table.items():
                self._keep_key(one.token, key)

    def commit_step(self, run_id: str, *, topic: int, offset: int, at: int) -> None:
        """Remember where the result of a run's step is."""
        self.steps_done.add(run_print(run_id), topic=topic, offset=offset, at=at)

    def _keep_key(self, token: int, key: EffectKey) -> None:
        self._keys[token] = key
        if (step := step_of(key[0])) is not None:
            self._open_steps.setdefault(step[0], {})[key] = None

    def _drop(self, key: EffectKey) -> PendingEffect | None:
        """Drop the entry of this key; returns the grant, if it was one."""
        pending, failed = self.pending.pop(key, None), self.failed.pop(key, None)
        for one in (pending, failed):
            if one is not None:
                del self._keys[one.token]
        if (step := step_of(key[0])) is not None and step[0] in self._open_steps:
            steps = self._open_steps[step[0]]
            steps.pop(key, None)
            if not steps:
                del self._open_steps[step[0]]
        return pending

    def expire(self, now: int) -> None:
        """Drop entries older than their time to live. An effect under a live lease stays."""
        for table in (self.committed, self.long, self.steps_done):
            table.expire(now)
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
        return max(pending.until, pending.at + max(self._ttl_ms, pending.terms.ttl_ms))

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


def run_print(run_id: str) -> int:
    """The fingerprint under which the committed steps of a run are found."""
    return fingerprint(STEPS_TOPIC, run_id)
