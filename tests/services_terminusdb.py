"""A TerminusDB for the tests: the one in the environment, else the stand-in that was recorded from one.

DRIFTQ_TEST_TERMINUSDB_URL, like `terminusdb+http://admin:root@127.0.0.1:6363/admin`, names an organization
where databases may be made. No package registry carries the server. Without the variable the tests use the
stand-in in `tests/support/terminus`, which answers the recorded calls of a real server (12.0.6) as that did.

A test that stops the server takes `private_terminus`, which is always a stand-in of its own.
"""

import atexit
import functools
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from driftq.errors import DriftQError, ServerUnreachable
from driftq.sinks.documents.control import read_control
from driftq.sinks.terminusdb import TerminusSink
from driftq.sinks.terminusdb.address import TerminusAddress
from driftq.transport.blocking import BlockingConnection
from driftq.transport.endpoint import Endpoint
from tests.support.waiting import wait_until

ROOT = Path(__file__).parent.parent
STARTED_IN_S = 60.0


class TerminusProcess:
    """A stand-in of its own with a durable folder, on loopback, that can be killed and started again."""

    def __init__(self, *options: str) -> None:
        self._options = options
        self._folder = Path(tempfile.mkdtemp(prefix="driftq-terminus-"))
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = int(probe.getsockname()[1])
        self._process: subprocess.Popen[bytes] | None = None
        self.start()

    @property
    def url(self) -> str:
        """Of the organization."""
        return f"terminusdb+http://admin:root@127.0.0.1:{self.port}/admin"

    def start(self) -> None:
        with (self._folder / "errors").open("ab") as errors:
            self._process = process = subprocess.Popen(
                [
                    sys.executable,
                    "-m",
                    "tests.support.terminus",
                    str(self._folder),
                    str(self.port),
                    *self._options,
                ],
                cwd=ROOT,
                stderr=errors,
            )
        wait_until(
            f"the stand-in answers\n{self.errors()}",
            lambda: process.poll() is not None or _answers(self.url),
            within_s=STARTED_IN_S,
        )
        assert process.poll() is None, self.errors()

    def errors(self) -> str:
        return (self._folder / "errors").read_text()[-2_000:]

    def kill(self) -> None:
        """SIGKILL: the next start finds what was committed."""
        if self._process:
            self._process.kill()
            self._process.wait()
            self._process = None

    def remove(self) -> None:
        self.kill()
        shutil.rmtree(self._folder, ignore_errors=True)


def _answers(url: str) -> bool:
    try:
        return _call(url, "GET", "/api/ok") == 200
    except ServerUnreachable:
        return False


def _call(url: str, method: str, path: str, body: bytes | None = None) -> int:
    address = TerminusAddress.of(f"{url}/none")
    connection = BlockingConnection(Endpoint.of(address.server, timeout_s=60.0), headers=address.headers)
    try:
        response = connection.send(method, path, body=body)
        response.read()
    finally:
        connection.close()
    return response.status


def create_database(url: str) -> str:
    """A fresh database in the organization at this address; its own address."""
    name = f"driftq_test_{uuid.uuid4().hex[:12]}"
    organization = TerminusAddress.of(f"{url}/{name}").organization
    body = b'{"label": "driftq", "comment": "", "schema": true}'
    status = _call(url, "POST", f"/api/db/{organization}/{name}", body)
    if status != 200:
        raise DriftQError(f"no database could be made: {status}")
    return f"{url}/{name}"


def drop_database(url: str) -> None:
    address = TerminusAddress.of(url)
    _call(url.rpartition("/")[0], "DELETE", f"/api/db/{address.path}")


def count_document_commits(url: str, read_model: str) -> int:
    """How many commits in this database have stored one document of a read model, at most 100."""
    store = TerminusSink(url).open_store(read_model)
    branch = store._schema.place_branch(read_control(store).live.place)
    log = store._server._call("GET", f"/api/log/{store._server.branch_path(branch)}", query={"count": 100})
    store.close()
    return sum(commit["message"] == "1 documents" for commit in log)


@functools.cache
def shared_url() -> str:
    """The server that all modules of a run share."""
    if given := os.environ.get("DRIFTQ_TEST_TERMINUSDB_URL"):
        return given
    server = TerminusProcess()
    atexit.register(server.remove)
    return server.url


@pytest.fixture(scope="session")
def terminus_url() -> str:
    """An organization; use `terminus_database_url` for a database to fill."""
    return shared_url()


@pytest.fixture
def terminus_database_url(terminus_url: str) -> Iterator[str]:
    """A fresh, empty database for this test."""
    url = create_database(terminus_url)
    yield url
    drop_database(url)


@pytest.fixture
def private_terminus() -> Iterator[TerminusProcess]:
    """A stand-in of its own, which the test may kill."""
    server = TerminusProcess()
    yield server
    server.remove()
