"""A real server process for the contract tests, and clients that talk to it over real sockets."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import select
import signal
import socket
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self
from urllib.parse import urlencode

from tests.support.preloaded import ForkedProcess, start_python

ROOT = Path(__file__).parents[2]
PATIENCE_S = 60.0
V1_DEV = {
    "in_flight_max": 2,
    "partition_messages_max": 2,
    "partition_bytes_max": 20,
    "count_unread": True,
}


@dataclass
class Answer:
    status: int
    headers: Mapping[str, str]
    content: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.content)

    @property
    def lines(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.content.splitlines()]

    def refused(self, status: int, code: str) -> dict[str, Any]:
        """The error, which has to be this one and in the usual shape."""
        assert (self.status, self.json["error"]) == (status, code), self
        assert self.headers["Content-Type"] == "application/json"
        assert isinstance(self.json["message"], str)
        assert self.json["message"]
        return dict(self.json)


class Stream:
    """One consume stream; a line is waited for, never slept for."""

    def __init__(self, port: int, **query: Any) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE_S)
        self._connection.request("GET", "/v1/consume?" + urlencode(query))
        assert self._connection.sock is not None
        self.socket = self._connection.sock
        self._response = self._connection.getresponse()
        self.status = self._response.status
        self.headers = dict(self._response.headers.items())

    def next(self) -> dict[str, Any]:
        line = self._response.readline()
        assert line, "the stream has ended"
        return dict(json.loads(line))

    def take(self, count: int) -> list[dict[str, Any]]:
        return [self.next() for _ in range(count)]

    def is_quiet(self, ms: int) -> bool:
        """Nothing arrives within so many milliseconds."""
        return not select.select([self.socket], [], [], ms / 1000)[0]

    def rest(self) -> bytes:
        """Everything until the server ends the stream."""
        return self._response.read()

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self.socket.shutdown(socket.SHUT_RDWR)
        self._response.close()
        self._connection.close()


class Server:
    """A server on a folder, or in memory; can be killed and started again where it was."""

    def __init__(self, folder: Path | None, **options: Any) -> None:
        self._asked = {"folder": str(folder) if folder else None, "port": 0} | options
        self._process: ForkedProcess | subprocess.Popen[bytes] | None = None
        self._connection: http.client.HTTPConnection | None = None
        self._topics = 0
        self.port = 0

    def start(self) -> Self:
        self._logged = tempfile.TemporaryFile()  # noqa: SIM115 - closed when the process is gone
        readable, writable = os.pipe()
        self._process = start_python(
            "tests.contract.launcher",
            [json.dumps(self._asked)],
            env=os.environ,
            folder=ROOT,
            out=writable,
            err=self._logged.fileno(),
        )
        os.close(writable)
        with open(readable, "rb") as said:
            line = said.readline()
        assert line, self._gone()
        self.port = self._asked["port"] = int(line)
        return self

    def kill(self) -> None:
        assert self._process is not None
        self._process.kill()
        self._gone()

    def terminate(self) -> tuple[int, str]:
        """SIGTERM: exit code, and what was logged."""
        assert self._process is not None
        self._process.send_signal(signal.SIGTERM)
        code = self._process.wait(PATIENCE_S)
        return code, self._gone()

    def wait(self) -> tuple[int, str]:
        """The server ends by itself: exit code, and what was logged."""
        assert self._process is not None
        code = self._process.wait(PATIENCE_S)
        return code, self._gone()

    def _gone(self) -> str:
        assert self._process is not None
        self._process.wait(PATIENCE_S)
        self._process = None
        self.hang_up()
        self._logged.seek(0)
        logged = self._logged.read().decode()
        self._logged.close()
        return logged

    def hang_up(self) -> None:
        """Close the connection that calls are made on."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *raised: object) -> None:
        if self._process is not None:
            code, errors = self.terminate()
            assert code == 0, errors
            assert "Traceback" not in errors, errors

    # Calls

    def call(
        self, method: str, path: str, body: Any = None, headers: Mapping[str, str] | None = None
    ) -> Answer:
        """One request on a connection that is kept; a body that is no bytes is sent as JSON."""
        if self._connection is None:
            self._connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE_S)
        content = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        self._connection.request(method, path, content, dict(headers or {}))
        response = self._connection.getresponse()
        return Answer(response.status, dict(response.headers.items()), response.read())

    def get(self, path: str, **query: Any) -> Answer:
        return self.call("GET", path + ("?" + urlencode(query) if query else ""))

    def post(self, path: str, body: Any = None, **query: Any) -> Answer:
        return self.call("POST", path + ("?" + urlencode(query) if query else ""), body)

    def put(self, path: str, body: Any = None) -> Answer:
        return self.call("PUT", path, body)

    def delete(self, path: str) -> Answer:
        return self.call("DELETE", path)

    def new_topic(self, partitions: int = 1) -> str:
        self._topics += 1
        name = f"topic-{self._topics}"
        assert self.post("/v1/topics", {"name": name, "partitions": partitions}).status == 201
        return name

    def produce(self, topic: str, value: str, key: str = "", **envelope: Any) -> dict[str, Any]:
        body = {"topic": topic, "value": value, "key": key}
        answer = self.post("/v1/produce", body | ({"envelope": envelope} if envelope else {}))
        assert answer.status == 200, answer
        return dict(answer.json)

    @contextlib.contextmanager
    def consume(self, topic: str, group: str = "g", owner: str = "o", **query: Any) -> Iterator[Stream]:
        stream = Stream(self.port, topic=topic, group=group, owner=owner, **query)
        try:
            yield stream
        finally:
            stream.close()

    def settle(self, verb: str, topic: str, line: Mapping[str, Any], /, **fields: Any) -> Answer:
        """Ack, nack or extend the delivery of a line."""
        body = {"topic": topic, "group": "g", "owner": "o"}
        body |= {"partition": line["partition"], "offset": line["offset"]}
        return self.post(f"/v1/{verb}", body | fields)

    # Bytes

    def open(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), timeout=PATIENCE_S)

    def exchange(self, request: bytes, *, half_close: bool = False) -> bytes:
        """Send bytes and read all that comes until the server closes."""
        with self.open() as client:
            client.sendall(request)
            if half_close:
                client.shutdown(socket.SHUT_WR)
            return read_all(client)


def read_all(client: socket.socket) -> bytes:
    received = b""
    while chunk := client.recv(65536):
        received += chunk
    return received
