"""A server with a keys file, and calls with a key from an address of one's own."""

from __future__ import annotations

import http.client
import json
import os
import signal
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from driftq.access.file import change_keys
from driftq.access.keys import Role, new_key
from tests.contract.serving import PATIENCE_S, Answer, Server


class KeyedServer(Server):
    """Keys are added to its file while it runs, as `driftq key create` does it."""

    def __init__(self, folder: Path, *, broker: Any = None, **http_options: Any) -> None:
        self.keys_file = folder / "keys.json"
        change_keys(self.keys_file, lambda keys: keys)
        self.admin = self.add_key("admin", "admin")
        http = {"keys_file": str(self.keys_file), **http_options}
        super().__init__(folder / "log", http=http, **(broker or {}))

    def add_key(self, name: str, *roles: str, topics: Sequence[str] = (), **more: Any) -> str:
        entry, text = new_key(name, roles=map(Role, roles), topics=topics, **more)
        change_keys(self.keys_file, lambda keys: [*keys, entry])
        return text

    def revoke(self, name: str) -> None:
        change_keys(self.keys_file, lambda keys: [key for key in keys if key.name != name])

    def hang_up_signal(self) -> None:
        """SIGHUP: read the files again."""
        assert self._process is not None
        self._process.send_signal(signal.SIGHUP)

    @property
    def logged(self) -> str:
        """What it has logged so far; the process writes on at the file's own place."""
        return os.pread(self._logged.fileno(), 1 << 20, 0).decode()

    def ask(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        key: str | None,
        source: str = "127.0.0.1",
        headers: Mapping[str, str] | None = None,
        **query: Any,
    ) -> Answer:
        """One request on a connection of its own."""
        connection = http.client.HTTPConnection(
            "127.0.0.1", self.port, timeout=PATIENCE_S, source_address=(source, 0)
        )
        sent = dict(headers or {})
        if key is not None:
            sent["Authorization"] = f"Bearer {key}"
        content = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        try:
            connection.request(method, path + ("?" + urlencode(query) if query else ""), content, sent)
            response = connection.getresponse()
            return Answer(response.status, dict(response.headers.items()), response.read())
        finally:
            connection.close()


class TenantServer(KeyedServer):
    """With a key of every role for each of two tenants, and one without a tenant."""

    def __init__(self, folder: Path, *, broker: Any = None, **http_options: Any) -> None:
        super().__init__(folder, broker=broker, **http_options)
        self.acme = self.add_key("acme", "admin", tenant="acme")
        self.globex = self.add_key("globex", "admin", tenant="globex")

    def create(self, topic: str, *, key: str, **options: Any) -> Answer:
        return self.ask("POST", "/v1/topics", {"name": topic, **options}, key=key)

    def send(self, topic: str, value: str, *, key: str, **envelope: Any) -> Answer:
        body: dict[str, Any] = {"topic": topic, "value": value}
        return self.ask("POST", "/v1/produce", body | ({"envelope": envelope} if envelope else {}), key=key)

    def records(self, topic: str) -> list[dict[str, Any]]:
        """What is stored, as the key without a tenant sees it."""
        return self.ask("GET", f"/v1/topics/{topic}/records", key=self.admin).lines

    def enqueue(self, queue: str, *, key: str, **fields: Any) -> Answer:
        return self.ask("POST", "/v1/jobs", {"queue": queue, "task": "t", "payload": 1, **fields}, key=key)

    def append_event(self, aggregate_type: str, event_id: str, *, key: str) -> Answer:
        event: dict[str, Any] = {"event_id": event_id, "aggregate_type": aggregate_type, "aggregate_id": "1"}
        event |= {"event_type": "made", "kind": "test", "operation": "append", "payload": f"of {event_id}"}
        return self.ask("POST", "/v1/events", event, key=key)
