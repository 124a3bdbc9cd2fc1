"""A real Kafka for the tests: the one in the environment, else one of our own on loopback.

DRIFTQ_TEST_KAFKA_BOOTSTRAP names servers where topics may be made. Without it Kafka is started from the jars
that requirements/maven/kafka-broker pins. Tests share one broker, `kafka`, and keep apart by event logs and
topics of their own; a test that stops the broker takes `private_kafka`.
"""

import atexit
import base64
import contextlib
import functools
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from driftq.model.options.kafka import KafkaOptions
from tests.support.maven import JarsUnavailable, jars

STARTED_IN_S = 180.0
STOPPED_IN_S = 60.0
_STARTS = 4
_CONTROLLER = 100
"""The node that only decides, where several brokers run: any of them may then be killed."""
_HEAP = ("-Xms128m", "-Xmx384m", "-XX:+UseSerialGC")
_SETTINGS = {
    "controller.listener.names": "CONTROLLER",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
    "inter.broker.listener.name": "PLAINTEXT",
    "num.partitions": "4",
    "offsets.topic.num.partitions": "4",
    "transaction.state.log.num.partitions": "4",
    "share.coordinator.state.topic.num.partitions": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "group.initial.rebalance.delay.ms": "0",
    "auto.create.topics.enable": "false",
    "log.cleaner.dedupe.buffer.size": "16777216",
    "log.cleaner.threads": "1",
}
_LOGGING = """\
Configuration:
  Appenders:
    Console:
      name: STDOUT
      PatternLayout:
        pattern: "[%d] %p %m (%c)%n"
  Loggers:
    Root:
      level: WARN
      AppenderRef:
        ref: STDOUT
"""


@dataclass
class _Node:
    """One process of the cluster."""

    number: int
    roles: str
    folder: Path
    port: int = 0
    process: subprocess.Popen[bytes] | None = None
    settings: dict[str, str] = field(default_factory=dict)

    @property
    def is_broker(self) -> bool:
        return "broker" in self.roles


class KafkaServer:
    """A cluster of its own in a temporary folder, which can be stopped, killed and started again."""

    def __init__(
        self,
        *,
        brokers: int = 1,
        settings: Mapping[str, str] | None = None,
        clients: tuple[tuple[str, str], ...] = (),
    ) -> None:
        """`settings` are added to those of each node; `clients` are options that a client then needs."""
        self._jars = ":".join(map(str, jars("kafka-broker")))
        self._folder = Path(tempfile.mkdtemp(prefix="driftq-kafka-"))
        self._settings = dict(settings or {})
        self._clients = clients
        (self._folder / "log4j2.yaml").write_text(_LOGGING)
        self._nodes: list[_Node] = []
        try:
            for left in reversed(range(_STARTS)):
                self._make(brokers)
                try:
                    self.start()
                    return
                except PortTaken:
                    self.kill()
                    if not left:
                        raise
        except BaseException:
            self.remove()
            raise

    @property
    def bootstrap(self) -> str:
        return ",".join(f"127.0.0.1:{node.port}" for node in self._nodes if node.is_broker)

    @property
    def options(self) -> KafkaOptions:
        return KafkaOptions(bootstrap=self.bootstrap, options=self._clients)

    @property
    def classpath(self) -> str:
        """Kafka's own jars, with its Java clients."""
        return self._jars

    def start(self, node: int | None = None) -> None:
        """Start all processes, or one, and wait until every broker answers."""
        for one in self._chosen(node):
            if one.process is None:
                self._launch(one)
        self._wait()

    def stop(self, node: int | None = None) -> None:
        """Stop in an orderly way."""
        self._end(signal.SIGTERM, node)

    def kill(self, node: int | None = None) -> None:
        """SIGKILL: the next start recovers."""
        self._end(signal.SIGKILL, node)

    def restart(self) -> None:
        self.stop()
        self.start()

    def remove(self) -> None:
        self.kill()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _chosen(self, node: int | None) -> list[_Node]:
        return [one for one in self._nodes if node in (None, one.number)]

    def _end(self, sign: signal.Signals, node: int | None) -> None:
        running = [one for one in self._chosen(node) if one.process is not None]
        for one in sorted(running, key=lambda each: each.number):  # The controller ends last.
            assert one.process is not None
            one.process.send_signal(sign)
            try:
                one.process.wait(timeout=STOPPED_IN_S)
            except subprocess.TimeoutExpired:
                one.process.kill()
                one.process.wait()
            one.process = None

    def _make(self, brokers: int) -> None:
        """Write each node's settings for free ports, and format its folder."""
        roles = dict.fromkeys(range(1, brokers + 1), "broker") | {_CONTROLLER: "controller"}
        if brokers == 1:
            roles = {1: "broker,controller"}
        ports = iter(_free_ports(len(roles) + 1))
        quorum = next(ports)
        cluster = "d" + base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")[1:]
        home = Path(tempfile.mkdtemp(dir=self._folder))
        self._nodes = [_Node(number, role, home / str(number)) for number, role in roles.items()]
        for node in self._nodes:
            node.folder.mkdir()
            node.port = next(ports) if node.is_broker else quorum
            node.settings = self._node_settings(node, quorum=quorum, replicas=min(brokers, 2))
            lines = [f"{name}={value}\n" for name, value in node.settings.items()]
            (node.folder / "server.properties").write_text("".join(lines))
            voter = "--standalone" if "controller" in node.roles else "--no-initial-controllers"
            self._java(
                node, "kafka.tools.StorageTool", "format", voter, "-t", cluster, "-c", "server.properties"
            )

    def _node_settings(self, node: _Node, *, quorum: int, replicas: int) -> dict[str, str]:
        listeners = [f"PLAINTEXT://127.0.0.1:{node.port}"] if node.is_broker else []
        if "controller" in node.roles:
            listeners.append(f"CONTROLLER://127.0.0.1:{quorum}")
        copies = {
            "default.replication.factor": replicas,
            "offsets.topic.replication.factor": replicas,
            "transaction.state.log.replication.factor": replicas,
            "transaction.state.log.min.isr": 1,
            "share.coordinator.state.topic.replication.factor": replicas,
        }
        return (
            _SETTINGS
            | {
                "process.roles": node.roles,
                "node.id": str(node.number),
                "controller.quorum.bootstrap.servers": f"127.0.0.1:{quorum}",
                "listeners": ",".join(listeners),
                "advertised.listeners": ",".join(listeners),
                "log.dirs": str(node.folder / "data"),
            }
            | {name: str(value) for name, value in copies.items()}
            | self._settings
        )

    def _java(self, node: _Node, *arguments: str) -> None:
        done = subprocess.run(
            ["java", "-XX:TieredStopAtLevel=1", "-cp", self._jars, *arguments],
            cwd=node.folder,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode != 0:
            raise RuntimeError(f"{arguments[0]} failed:\n{(done.stdout + done.stderr)[-2000:]}")

    def _launch(self, node: _Node) -> None:
        logging = f"-Dlog4j2.configurationFile=file:{self._folder}/log4j2.yaml"
        with (node.folder / "output").open("ab") as output:
            node.process = subprocess.Popen(
                ["java", *_HEAP, logging, "-cp", self._jars, "kafka.Kafka", "server.properties"],
                cwd=node.folder,
                stdout=output,
                stderr=subprocess.STDOUT,
            )

    def _wait(self) -> None:
        """Until the cluster knows every broker that runs."""
        wanted = [node for node in self._nodes if node.is_broker and node.process is not None]
        until = time.monotonic() + STARTED_IN_S
        while len(_brokers(wanted, self._clients)) < len(wanted):
            for node in self._nodes:
                ended = node.process is not None and node.process.poll() is not None
                if ended or time.monotonic() > until:
                    said = (node.folder / "output").read_text(errors="replace")
                    if ended and "Address already in use" in said:
                        raise PortTaken
                    raise RuntimeError(f"Kafka did not start:\n{said[-4000:]}")
            time.sleep(0.1)


class PortTaken(Exception):
    """Another process took a port before the broker had it."""


def _brokers(nodes: list[_Node], options: tuple[tuple[str, str], ...]) -> set[int]:
    """The brokers that answer a request and are part of the cluster."""
    for node in nodes:
        with contextlib.suppress(OSError):
            socket.create_connection(("127.0.0.1", node.port), timeout=1).close()
            continue
        return set()
    addresses = ",".join(f"127.0.0.1:{node.port}" for node in nodes)
    admin = AdminClient({"bootstrap.servers": addresses, "log_level": 0, **dict(options)})
    try:
        known = set(admin.list_topics(timeout=5).brokers)
    except KafkaException:
        return set()
    return known & {node.number for node in nodes}


def _free_ports(count: int) -> list[int]:
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]


def start_kafka(
    *,
    brokers: int = 1,
    settings: Mapping[str, str] | None = None,
    clients: tuple[tuple[str, str], ...] = (),
) -> KafkaServer:
    """A cluster of one's own; skips the test where Java, Maven or the jars are missing."""
    if shutil.which("java") is None:
        pytest.skip("Kafka needs Java, and there is none here")
    try:
        return KafkaServer(brokers=brokers, settings=settings, clients=clients)
    except JarsUnavailable as missing:
        pytest.skip(f"Kafka could not be started: {missing}")


@functools.cache
def shared_options() -> KafkaOptions:
    """The broker that all modules of a run share."""
    if given := os.environ.get("DRIFTQ_TEST_KAFKA_BOOTSTRAP"):
        return KafkaOptions(bootstrap=given)
    server = start_kafka()
    atexit.register(server.remove)
    return server.options


@pytest.fixture(scope="session")
def kafka() -> KafkaOptions:
    """How to reach the shared broker."""
    return shared_options()


@pytest.fixture(scope="module")
def private_kafka() -> Iterator[KafkaServer]:
    """A broker that the tests of this module may stop."""
    server = start_kafka()
    yield server
    server.remove()


def connector_jars(spark_version: str) -> list[Path]:
    """The jars of Spark's Kafka connector for this version of Spark, as pinned for the tests."""
    minor = ".".join(spark_version.split(".")[:2])
    try:
        return jars(f"spark-kafka-{minor}")
    except JarsUnavailable as missing:
        pytest.skip(f"Spark's Kafka connector is missing: {missing}")
