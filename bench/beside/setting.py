"""What the side-by-side benchmarks share: names of the sides, topics, calls of a server."""

import http.client
import json
from typing import Any

from bench.machine import Server

OURS, REDIS = "DriftQ", "Redis, appendfsync always"
VALUE_BYTES = 200
VALUE = "x" * VALUE_BYTES
PARTITIONS = 4


class Caller:
    """One kept connection to a server."""

    def __init__(self, running: Server) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", running.port)

    def ask(self, method: str, path: str, body: object = None) -> bytes:
        """Send and read. Raises RuntimeError for a status that is not 2xx."""
        octets = None if body is None else json.dumps(body)
        self._connection.request(method, path, octets, {"Content-Type": "application/json"})
        answer = self._connection.getresponse()
        text = answer.read()
        if answer.status >= 300:
            raise RuntimeError(f"{method} {path}: {answer.status} {text.decode()}")
        return text

    def close(self) -> None:
        self._connection.close()


def ask(running: Server, method: str, path: str, body: object = None) -> Any:
    """One call on a connection of its own."""
    caller = Caller(running)
    try:
        text = caller.ask(method, path, body)
        return json.loads(text) if text else None
    finally:
        caller.close()


def create_topic(running: Server, topic: str, partitions: int = PARTITIONS) -> None:
    ask(running, "POST", "/v1/topics", {"name": topic, "partitions": partitions})
