"""A real Spark cluster for the tests: a standalone master and workers, started from the pyspark wheel.

Its executors are processes of their own, which tests find and kill. PYTHONPATH of the cluster is empty: what
the executors import, a job has to bring.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pyspark
import pytest

STARTED_IN_S = 120.0
_MASTER = "org.apache.spark.deploy.master.Master"
_WORKER = "org.apache.spark.deploy.worker.Worker"
_EXECUTOR = "CoarseGrainedExecutorBackend"


class SparkCluster:
    """One master, and workers with one core each, on loopback in a temporary folder."""

    def __init__(self, *, workers: int = 2, memory: str = "1g") -> None:
        self._home = Path(pyspark.__file__).parent
        self._folder = Path(tempfile.mkdtemp(prefix="driftq-cluster-"))
        self._memory = memory
        self._port, self._ui = _free_ports(2)
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._orphans: list[psutil.Process] = []
        try:
            arguments = ("--port", str(self._port), "--webui-port", str(self._ui))
            self._launch("master", _MASTER, *arguments)
            self._wait_for_port()
            for number in range(workers):
                self.start_worker(number)
        except BaseException:
            self.stop()
            raise

    @property
    def url(self) -> str:
        return f"spark://127.0.0.1:{self._port}"

    def start_worker(self, number: int) -> None:
        (ui,) = _free_ports(1)
        work = self._folder / f"work-{number}"
        sizes = ("--cores", "1", "--memory", self._memory, "--work-dir", str(work), "--webui-port", str(ui))
        self._launch(f"worker-{number}", _WORKER, *sizes, self.url)

    def kill_worker(self, number: int) -> None:
        """SIGKILL of the daemon; its executors end by themselves when they notice."""
        process = self._processes.pop(f"worker-{number}")
        self._orphans += psutil.Process(process.pid).children(recursive=True)
        process.kill()
        process.wait()

    def executors(self) -> list[psutil.Process]:
        """The executors of all applications of this cluster."""
        found: list[psutil.Process] = []
        for name, daemon in self._processes.items():
            if name.startswith("worker") and daemon.poll() is None:
                children = psutil.Process(daemon.pid).children(recursive=True)
                found += [one for one in children if _is_executor(one)]
        return found

    def stop(self) -> None:
        for process in self._processes.values():
            for child in (
                psutil.Process(process.pid).children(recursive=True) if process.poll() is None else []
            ):
                _kill(child)
            process.kill()
            process.wait()
        self._processes.clear()
        for orphan in self._orphans:
            _kill(orphan)
        shutil.rmtree(self._folder, ignore_errors=True)

    def _launch(self, name: str, kind: str, *arguments: str) -> None:
        environ = {
            key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "PYSPARK"))
        }
        environ |= {
            "SPARK_HOME": str(self._home),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_DAEMON_MEMORY": "256m",
        }
        with (self._folder / f"{name}.log").open("ab") as log:
            self._processes[name] = subprocess.Popen(
                [self._home / "bin/spark-class", kind, "--host", "127.0.0.1", *arguments],
                cwd=self._folder,
                env=environ,
                stdout=log,
                stderr=log,
            )

    def _wait_for_port(self) -> None:
        end = time.monotonic() + STARTED_IN_S
        while True:
            try:
                socket.create_connection(("127.0.0.1", self._port), timeout=1).close()
                return
            except OSError:
                if time.monotonic() > end or self._processes["master"].poll() is not None:
                    raise RuntimeError((self._folder / "master.log").read_text()[-3000:]) from None
                time.sleep(0.1)


def _is_executor(process: psutil.Process) -> bool:
    try:
        return any(_EXECUTOR in word for word in process.cmdline())
    except psutil.Error:
        return False  # It has just ended.


def _kill(process: psutil.Process) -> None:
    try:
        process.send_signal(signal.SIGKILL)
    except psutil.Error:
        pass  # It has just ended.


def _free_ports(count: int) -> list[int]:
    sockets = [socket.socket() for _ in range(count)]
    try:
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [int(each.getsockname()[1]) for each in sockets]
    finally:
        for each in sockets:
            each.close()


@pytest.fixture(scope="module")
def spark_cluster() -> Iterator[SparkCluster]:
    """A cluster whose parts the tests of this module may kill."""
    if shutil.which("java") is None:
        pytest.skip("a Spark cluster needs Java, and there is none here")
    cluster = SparkCluster()
    yield cluster
    cluster.stop()
