"""The outbox in the user's own database."""

from __future__ import annotations


class OutboxMissing(Exception):
    """The database has no outbox."""

    def __init__(self, address: str) -> None:
        super().__init__(f"{address} has no outbox: run driftq outbox init")
        self.address = address


class OutboxRelayReplaced(Exception):
    """Another relay has taken over: this one may change nothing more."""

    def __init__(self, *, token: int) -> None:
        super().__init__(f"another relay has taken over from token {token}")
        self.token = token
