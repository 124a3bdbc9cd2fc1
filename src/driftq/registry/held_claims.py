"""Which claims this process knows that it holds, so that a lost answer does not cost a whole lease.

A grant can be committed while its answer is lost with the connection. The event would then be in progress,
held by us and worked on by nobody, until the lease ends. So every registry object has a name of its own
that it stores with its grants, and remembers the tokens that reached a caller. A live grant under our name
whose token nobody here has, while nobody else here is waiting for an answer, may be granted again at once.

A token is remembered for as long as its lease can last. What is claimed in a caller's transaction is stored
without our name and is no part of this.
"""

import threading
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from driftq.registry.claim import Claim

Key = tuple[str, str]
"""Handler and event id."""

_PRUNE_AT = 4096


class HeldClaims:
    """Safe to share between threads."""

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        """Start over as another process, which holds no claim."""
        self._lock = threading.Lock()
        self._waiting: Counter[Key] = Counter()
        self._tokens: dict[tuple[str, str, int], float] = {}
        self._prune_at = _PRUNE_AT

    @contextmanager
    def waiting(self, keys: set[Key]) -> Iterator[None]:
        """While an answer about these is on its way. What it grants must be kept before the block ends."""
        with self._lock:
            self._waiting.update(keys)
        try:
            yield
        finally:
            with self._lock:
                self._waiting.subtract(keys)
                for key in keys:
                    if not self._waiting[key]:
                        del self._waiting[key]

    def keep(self, claims: Iterable[Claim]) -> None:
        """These grants, or their extensions, have reached us just now."""
        now = time.monotonic()
        with self._lock:
            for claim in claims:
                self._tokens[_token_key(claim)] = now + claim.handler.lease_ms / 1000
            if len(self._tokens) > self._prune_at:
                self._tokens = {key: until for key, until in self._tokens.items() if until > now}
                self._prune_at = max(_PRUNE_AT, 2 * len(self._tokens))

    def drop(self, claims: Iterable[Claim]) -> None:
        """These are over. Doing it twice changes nothing."""
        with self._lock:
            for claim in claims:
                self._tokens.pop(_token_key(claim), None)

    def is_lost(self, key: Key, token: int) -> bool:
        """Nobody here has this grant of ours, and only the one who asks could still be getting it."""
        with self._lock:
            return (*key, token) not in self._tokens and self._waiting[key] == 1


def _token_key(claim: Claim) -> tuple[str, str, int]:
    return claim.handler.name, claim.event.event_id, claim.token
