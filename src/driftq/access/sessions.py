"""Sessions of the dashboard: a random id in a cookie stands for a key, so that no script holds the key.

Sessions live in memory and end after a time, at logout, or with a restart of the server. Each key has a
bounded number; beyond it, the oldest session of that key ends.
"""

from __future__ import annotations

import secrets
from collections import OrderedDict
from dataclasses import dataclass

from driftq.access.keys import ApiKey

COOKIE = "driftq_session"
SESSION_S = 12 * 3600
PER_KEY_MAX = 64
SESSIONS_MAX = 4_096
_ID_BYTES = 32


@dataclass(frozen=True, slots=True)
class Session:
    """Whose it is, and when it ends."""

    key: ApiKey
    until: float


class Sessions:
    """The open sessions of one server, the oldest first."""

    def __init__(self) -> None:
        self._by_id: OrderedDict[str, Session] = OrderedDict()

    def open(self, key: ApiKey, *, now: float) -> str:
        """A new session of this key; its id is known to nobody else."""
        of_key = [name for name, session in self._by_id.items() if session.key.id == key.id]
        for name in of_key[: max(0, len(of_key) + 1 - PER_KEY_MAX)]:
            del self._by_id[name]
        if len(self._by_id) >= SESSIONS_MAX:
            self._by_id.popitem(last=False)
        name = secrets.token_urlsafe(_ID_BYTES)
        self._by_id[name] = Session(key, now + SESSION_S)
        return name

    def key_of(self, name: str, *, now: float) -> ApiKey | None:
        """The key that a session stands for; None when it has ended or never was."""
        session = self._by_id.get(name)
        if session is None:
            return None
        if session.until <= now:
            del self._by_id[name]
            return None
        return session.key

    def close(self, name: str) -> None:
        self._by_id.pop(name, None)

    def __len__(self) -> int:
        return len(self._by_id)


def session_in(cookie: bytes) -> str | None:
    """The session id in a `Cookie` header; None when there is none, or more than one."""
    found = [
        value.strip()
        for name, equals, value in (part.partition(b"=") for part in cookie.split(b";"))
        if equals and name.strip() == COOKIE.encode()
    ]
    return found[0].decode("latin-1") if len(found) == 1 and found[0] else None
