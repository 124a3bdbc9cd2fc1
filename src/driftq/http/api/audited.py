"""Admin actions in the audit log: who, when, what, on which target, with which status. Never a payload."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, cast

from driftq.access.audit import AuditLog
from driftq.access.keys import ApiKey
from driftq.errors import InvalidArgument
from driftq.http.api.route import Route
from driftq.http.wire.exchange import Exchange
from driftq.model.time import rfc3339

if TYPE_CHECKING:
    from driftq.http.wire.connection import ServerConnection


class Auditor:
    """Writes the actions of one server."""

    def __init__(self, log: AuditLog, now_ms: Callable[[], int]) -> None:
        self.log = log
        self._now_ms = now_ms

    def watch(self, exchange: Exchange, route: Route, key: ApiKey) -> None:
        """Write the action when the exchange is answered, with the status of its reply."""
        watched = WatchedConnection(
            exchange.connection, lambda status: self._write(exchange, route, key, status)
        )
        exchange.connection = cast("ServerConnection", watched)

    def refused(self, exchange: Exchange, route: Route, key: ApiKey, status: int) -> None:
        """A known key tried what it may not do."""
        self._write(exchange, route, key, status)

    def keys_changed(self, *, added: list[str], removed: list[str], changed: list[str]) -> None:
        target = {"added": added, "removed": removed, "changed": changed}
        self._entry(key=None, key_id=None, address=None, action="keys changed", target=target, outcome="done")

    def _write(self, exchange: Exchange, route: Route, key: ApiKey, status: int) -> None:
        self._entry(
            key=key.name,
            key_id=key.id,
            address=address_of(exchange.connection),
            action=f"{route.method} {route.path}",
            target=_target(exchange, route),
            status=status,
            outcome="done" if status < 400 else "refused" if status < 500 else "failed",
        )

    def _entry(self, **fields: Any) -> None:
        self.log.write({"at": rfc3339(self._now_ms()), **fields})


class WatchedConnection:
    """Stands between an exchange and its connection, and reports the status of the reply."""

    def __init__(self, connection: ServerConnection, report: Callable[[int], None]) -> None:
        self._connection = connection
        self._report = report

    def answered(self, exchange: Exchange, answer: bytes) -> None:
        self._report(int(answer[9:12]))  # After `HTTP/1.1 `.
        self._connection.answered(exchange, answer)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connection, name)


def address_of(connection: ServerConnection) -> str:
    """The client's address; empty where it has none."""
    peer = connection.peer
    return str(peer[0]) if isinstance(peer, tuple) and peer else ""


def _target(exchange: Exchange, route: Route) -> dict[str, str]:
    """The names in the path, else the topic that the request names."""
    if exchange.names or route.topics is None:
        return dict(exchange.names)
    try:
        return {"topic": next(iter(route.topics(exchange)), "")}
    except InvalidArgument:  # It was refused for that, and names no target.
        return {}
