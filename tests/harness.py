"""Real servers for tests: a process that is started, killed and started again, and clients outside of it.

server = ServerProcess(tmp_path / "data")
with server:                       # started, ready; killed at the end
    server.client().post("/v1/topics", {"name": "orders"})
    server.kill()                  # SIGKILL
    server.start()                 # the same folder, the same port
"""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from http.client import HTTPConnection, HTTPException, HTTPResponse
from pathlib import Path
from typing import Any, NamedTuple, Self
from urllib.parse import urlencode

from tests.support.preloaded import ForkedProcess, start_python

READY_S = 30.0
CALL_S = 20.0
_POLL_S = 0.01
_LISTENS = re.compile(r"http://127\.0\.0\.1:(\d+)")

Broken = (OSError, HTTPException)
"""What a call raises when the server is gone: no answer, so nothing is known."""


class Answer(NamedTuple):
    status: int
    body: Any
    headers: Mapping[str, str]


class Client:
    """One connection, closed with its last reference; after an error a call opens another. One thread."""

    def __init__(self, port: int, *, timeout_s: float = CALL_S) -> None:
        self._http = HTTPConnection("127.0.0.1", port, timeout=timeout_s)

    def get(self, path: str, **query: Any) -> Answer:
        return self._call("GET", f"{path}?{urlencode(query)}" if query else path, None)

    def post(self, path: str, body: Any) -> Answer:
        return self._call("POST", path, json.dumps(body).encode())

    def _call(self, method: str, target: str, body: bytes | None) -> Answer:
        try:
            self._http.request(method, target, body, {"Content-Type": "application/json"} if body else {})
            answer = self._http.getresponse()
            content = answer.read()
        except Broken:
            self._http.close()
            raise
        kind = answer.headers.get("Content-Type", "")
        decoded = json.loads(content) if content and kind.startswith("application/json") else content
        return Answer(answer.status, decoded, dict(answer.headers.items()))

    def close(self) -> None:
        self._http.close()

    __del__ = close


class Stream:
    """A consume stream. Iterating yields deliveries until the server ends it; any thread may `close` it."""

    def __init__(self, port: int, *, timeout_s: float | None = None, **query: Any) -> None:
        self._http = HTTPConnection("127.0.0.1", port, timeout=CALL_S)
        self._socket: socket.socket | None = None
        self._answer: HTTPResponse | None = None
        self._http.request("GET", "/v1/consume?" + urlencode(query))
        self._socket = self._http.sock
        self._answer = self._http.getresponse()
        self.status = self._answer.status
        self._socket.settimeout(timeout_s)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        assert self._answer is not None
        while line := self._answer.readline():
            yield json.loads(line)

    def take(self, count: int) -> list[dict[str, Any]]:
        """The next deliveries; fails when the stream ends before."""
        taken = []
        for delivery in self:
            taken.append(delivery)
            if len(taken) == count:
                return taken
        raise AssertionError(f"the stream ended after {len(taken)} of {count}")

    def close(self) -> None:
        if self._socket is not None:
            with suppress(OSError):
                self._socket.shutdown(socket.SHUT_RDWR)  # Wakes the thread that reads.
        self._http.close()
        if self._answer is not None:
            self._answer.close()

    __del__ = close


class ServerProcess:
    """`driftq serve` on one folder and, after its first start, one port."""

    def __init__(self, data: Path, *options: str, env: Mapping[str, str] | None = None) -> None:
        self.data = data
        self.options = options
        self.port = 0
        self.starts = 0
        self._env = {name: value for name, value in os.environ.items() if not name.startswith("DRIFTQ_")}
        self._env.update(env or {})
        self._process: subprocess.Popen[bytes] | ForkedProcess | None = None

    @property
    def log_folder(self) -> Path:
        return self.data / "log"

    @property
    def process(self) -> subprocess.Popen[bytes] | ForkedProcess:
        assert self._process is not None, "not started"
        return self._process

    @property
    def output(self) -> str:
        """What the latest start wrote to stdout."""
        return self._written("out").read_text()

    @property
    def errors(self) -> str:
        """What the latest start wrote to stderr."""
        return self._written("err").read_text()

    def spawn(self) -> None:
        """Start the process and wait for nothing."""
        self.starts += 1
        self.data.parent.mkdir(parents=True, exist_ok=True)
        where = ["--host", "127.0.0.1", "--port", str(self.port), "--data", str(self.data)]
        with self._written("out").open("wb") as out, self._written("err").open("wb") as err:
            self._process = start_python(
                "driftq",
                ["serve", *where, *self.options],
                env=self._env,
                folder=Path.cwd(),
                out=out.fileno(),
                err=err.fileno(),
            )

    def start(self) -> Self:
        """Start and wait until it is ready."""
        self.spawn()
        self.wait_ready()
        return self

    def wait_ready(self) -> None:
        end = time.monotonic() + READY_S
        while time.monotonic() < end:
            code = self.process.poll()
            assert code is None, f"the server exited with {code}: {self.errors}"
            if (found := _LISTENS.search(self.output)) and self._says_ready(int(found[1])):
                self.port = int(found[1])
                return
            time.sleep(_POLL_S)
        raise AssertionError(f"not ready after {READY_S} s: {self.errors}")

    def kill(self) -> None:
        """SIGKILL: nothing is flushed, nothing is said."""
        self.process.kill()
        self.process.wait()

    def terminate(self, *, within_s: float = 10.0) -> int:
        """SIGTERM; the exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.wait_exit(within_s)

    def wait_exit(self, within_s: float = 10.0) -> int:
        return self.process.wait(within_s)

    def restart(self) -> None:
        self.kill()
        self.start()

    def client(self) -> Client:
        return Client(self.port)

    def stream(self, topic: str, group: str, owner: str, **query: Any) -> Stream:
        return Stream(self.port, topic=topic, group=group, owner=owner, **query)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        if self._process is not None and self._process.poll() is None:
            self.kill()

    def _says_ready(self, port: int) -> bool:
        client = Client(port, timeout_s=5.0)
        try:
            return client.get("/v1/readyz").status == 200
        except Broken:
            return False
        finally:
            client.close()

    def _written(self, kind: str) -> Path:
        return self.data.parent / f"{self.data.name}-{self.starts}.{kind}"
