"""A real OpenSearch or Elasticsearch for the tests: the one in the environment, else one on loopback.

DRIFTQ_TEST_OPENSEARCH_URL names a server where indexes may be made, such as http://127.0.0.1:9200. Without it
a server is started from the zip that requirements/maven pins. Tests share one server, `search_url`, and keep
apart by prefixes of their own; a test that stops the server takes `private_search`.

These servers refuse to run as root; then they run as another user, from a copy that this user can read.
"""

import atexit
import functools
import http.client
import json
import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.support.killing import kill_tree
from tests.support.maven import JarsUnavailable, distribution

STARTED_IN_S = 240.0
_HEAP = "-Xms512m -Xmx512m"
_MEMORY_BYTES = 2 << 30
_QUICK = "-XX:TieredStopAtLevel=1"
"""Half the time to start, at some cost in throughput."""


@dataclass(frozen=True)
class Kind:
    """A release of a server, as requirements/maven has it."""

    pom: str
    program: str
    java: int
    """The oldest Java that it runs on."""
    settings: tuple[tuple[str, str], ...] = ()


OPENSEARCH_2 = Kind("opensearch-2.19", "opensearch", 17)
OPENSEARCH_3 = Kind("opensearch-3.6", "opensearch", 21)
ELASTICSEARCH_8 = Kind(
    "elasticsearch-8.19",
    "elasticsearch",
    17,
    settings=(("xpack.security.enabled", "false"),),
)


class SearchServer:
    """A node of its own in a temporary folder, which can be stopped, killed, frozen and started again."""

    def __init__(
        self,
        kind: Kind,
        *,
        settings: Mapping[str, str] | None = None,
        java_options: str = _QUICK,
        on_disk: bool = False,
    ) -> None:
        """Without `on_disk` a sync costs nothing, which is what most of the time goes into otherwise."""
        self._kind = kind
        self._java = find_java(kind.java)
        self._java_options = f"{_HEAP} {java_options}"
        self._settings = dict(kind.settings) | dict(settings or {})
        self._user = _server_user()
        self._process: subprocess.Popen[bytes] | None = None
        self.port = 0
        packed = distribution(kind.pom)
        self._folder = Path(tempfile.mkdtemp(prefix=f"driftq-{kind.program}-"))
        self._files = self._folder if on_disk else _folder_in_memory(f"driftq-{kind.program}-", self._folder)
        try:
            self._home = self._folder / "home" if self._user else packed
            if self._user:  # What root has cached, only root can read.
                shutil.copytree(packed, self._home)
            self._make()
            self.start()
        except BaseException:
            self.remove()
            raise

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        """Start it and wait until it serves."""
        program = self._kind.program.upper()
        environ = {name: value for name, value in os.environ.items() if not name.endswith("JAVA_HOME")}
        short = "ES" if program == "ELASTICSEARCH" else program
        environ |= {
            f"{short}_JAVA_HOME": str(self._java),
            f"{short}_JAVA_OPTS": self._java_options,
            f"{short}_PATH_CONF": str(self._folder / "config"),
            "HOME": str(self._folder),
        }
        with (self._folder / "output").open("ab") as output:
            self._process = subprocess.Popen(
                [self._home / "bin" / self._kind.program],
                cwd=self._folder,
                env=environ,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                **self._as_user(),
            )
        until = time.monotonic() + STARTED_IN_S
        while not _serves(self.port):
            if self._process.poll() is not None or time.monotonic() > until:
                said = (self._folder / "output").read_text(errors="replace")
                raise RuntimeError(f"{self._kind.pom} did not start:\n{said[-4000:]}")
            time.sleep(0.2)

    def stop(self) -> None:
        """Stop in an orderly way."""
        if self._process is not None:
            self._process.terminate()
            self._process.wait(timeout=STARTED_IN_S)
            self._process = None

    def kill(self) -> None:
        """SIGKILL, to whatever the program started as well: the next start recovers."""
        if self._process is not None:
            kill_tree(self._process)
            self._process = None

    def freeze(self) -> None:
        """It keeps its connections and answers nothing."""
        for process in self._processes():
            process.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        for process in self._processes():
            process.send_signal(signal.SIGCONT)

    def remove(self) -> None:
        self.kill()
        for folder in {self._folder, self._files}:
            shutil.rmtree(folder, ignore_errors=True)

    def _make(self) -> None:
        """Its settings, for a free port."""
        shutil.copytree(self._home / "config", self._folder / "config")
        options = self._folder / "config/jvm.options"
        lines = options.read_text().splitlines(keepends=True)
        options.write_text("".join(line for line in lines if "logs/" not in line))  # It may not write there.
        with socket.socket() as first, socket.socket() as second:
            for probe in (first, second):
                probe.bind(("127.0.0.1", 0))
            self.port, transport = (int(probe.getsockname()[1]) for probe in (first, second))
        settings = {
            "network.host": "127.0.0.1",
            "http.port": str(self.port),
            "transport.port": str(transport),
            "discovery.type": "single-node",
            "cluster.routing.allocation.disk.threshold_enabled": "false",
            "path.data": str(self._files / "data"),
            "path.logs": str(self._folder / "logs"),
        } | self._settings
        written = "".join(f"{name}: {value}\n" for name, value in settings.items())
        (self._folder / "config" / f"{self._kind.program}.yml").write_text(written)
        if self._user:
            for path in [
                self._folder,
                self._files,
                *(self._folder / "config").rglob("*"),
                self._folder / "config",
            ]:
                os.chown(path, self._user.pw_uid, self._user.pw_gid)

    def _processes(self) -> list[psutil.Process]:
        assert self._process is not None
        root = psutil.Process(self._process.pid)
        return [*root.children(recursive=True), root]

    def _as_user(self) -> dict[str, Any]:
        if not self._user:
            return {}
        return {"user": self._user.pw_uid, "group": self._user.pw_gid, "extra_groups": []}


def _folder_in_memory(prefix: str, otherwise: Path) -> Path:
    """A folder that survives the server and not the machine; the other one where there is no room for it."""
    memory = Path("/dev/shm")
    if not os.access(memory, os.W_OK) or shutil.disk_usage(memory).free < _MEMORY_BYTES:
        return otherwise
    return Path(tempfile.mkdtemp(prefix=prefix, dir=memory))


class NoJava(Exception):
    """No Java that is new enough."""


def find_java(oldest: int) -> Path:
    """The home of the oldest Java here that is not older than this; raises NoJava."""
    homes = [Path(os.environ["JAVA_HOME"])] if "JAVA_HOME" in os.environ else []
    if program := shutil.which("java"):
        homes.append(Path(program).resolve().parent.parent)
    homes += [
        *Path("/usr/lib/jvm").glob("*"),
        *Path("/Library/Java/JavaVirtualMachines").glob("*/Contents/Home"),
    ]
    found = {home: version for home in homes if (version := _java_version(home)) >= oldest}
    if not found:
        raise NoJava(
            f"Java {oldest} or newer is missing (on Debian: apt install openjdk-{oldest}-jre-headless)"
        )
    return min(found, key=found.__getitem__)


def _java_version(home: Path) -> int:
    """0 where there is none."""
    release = home / "release"
    if not (home / "bin/java").exists() or not release.exists():
        return 0
    for line in release.read_text().splitlines():
        name, _, value = line.partition("=")
        if name == "JAVA_VERSION":
            return int(value.strip('"').split(".")[0].split("-")[0])
    return 0


def _server_user() -> pwd.struct_passwd | None:
    """Whom the server runs as; None for the user who runs the tests."""
    return pwd.getpwnam("nobody") if os.geteuid() == 0 else None


def _serves(port: int) -> bool:
    try:
        status, health = http_json("GET", f"http://127.0.0.1:{port}/_cluster/health")
    except (OSError, http.client.HTTPException):
        return False
    return status == 200 and health["status"] in ("green", "yellow")


def http_json(method: str, url: str, body: object = None, *, timeout_s: float = 30.0) -> tuple[int, Any]:
    """One request to the server beside the client under test: the status, and what it says."""
    host, _, path = url.removeprefix("http://").partition("/")
    connection = http.client.HTTPConnection(host, timeout=timeout_s)
    try:
        sent = None if body is None else json.dumps(body)
        connection.request(method, f"/{path}", sent, {"Content-Type": "application/json"})
        response = connection.getresponse()
        return response.status, json.loads(response.read() or b"null")
    finally:
        connection.close()


def start_search(kind: Kind = OPENSEARCH_2, *, settings: Mapping[str, str] | None = None) -> SearchServer:
    """A server of one's own; skips the test where Java, Maven or the zip is missing."""
    try:
        return SearchServer(kind, settings=settings)
    except (JarsUnavailable, NoJava) as missing:
        pytest.skip(f"{kind.pom} could not be started: {missing}")


@functools.cache
def shared_server_url(kind: Kind) -> str:
    """A server of this kind that all modules of a run share."""
    server = start_search(kind)
    atexit.register(server.remove)
    return server.url


@pytest.fixture(scope="session")
def search_url() -> str:
    """The shared server's address."""
    return os.environ.get("DRIFTQ_TEST_OPENSEARCH_URL") or shared_server_url(OPENSEARCH_2)


@pytest.fixture
def prefix(search_url: str) -> Iterator[str]:
    """What the names of a test's indexes begin with; they are removed after the test."""
    made = f"t{uuid.uuid4().hex[:12]}"
    yield made
    _, indexes = http_json("GET", f"{search_url}/_cat/indices/{made}-*?format=json&h=index")
    for index in indexes:  # One by one: a server need not allow patterns.
        http_json("DELETE", f"{search_url}/{index['index']}")


@pytest.fixture(scope="module")
def private_search() -> Iterator[SearchServer]:
    """A server that the tests of this module may stop."""
    server = start_search()
    yield server
    server.remove()
