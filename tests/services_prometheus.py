"""A real Prometheus for the tests: Debian's package, on loopback in a temporary folder.

DRIFTQ_TEST_PROMETHEUS names the folder of its two programs. Else they are taken where they are installed, or
fetched from Debian's archive and unpacked into a cache, which installs nothing and starts no service.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.parse import urlencode
from urllib.request import urlopen

from driftq.settings import cache_folder
from tests.support.waiting import wait_until

_NAMES = ("prometheus", "promtool")


def find_programs() -> Path:
    """The folder that holds `prometheus` and `promtool`."""
    given = os.environ.get("DRIFTQ_TEST_PROMETHEUS")
    if given is not None:
        return Path(given)
    installed = [shutil.which(name) for name in _NAMES]
    if all(installed):
        return Path(str(installed[0])).parent
    return _unpacked()


def _unpacked() -> Path:
    """Debian's package, unpacked into the cache."""
    home = cache_folder() / "prometheus"
    programs = home / "usr" / "bin"
    if not all((programs / name).exists() for name in _NAMES):
        home.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=home.parent) as folder:
            fetched = subprocess.run(
                ["apt-get", "download", "prometheus"], cwd=folder, capture_output=True, text=True, check=False
            )
            packages = list(Path(folder).glob("prometheus_*.deb"))
            if not packages:
                raise RuntimeError(f"there is no Prometheus, and apt-get has none: {fetched.stderr[-500:]}")
            made = Path(folder, "made")
            subprocess.run(["dpkg", "-x", str(packages[0]), str(made)], check=True)
            shutil.copytree(made, home, dirs_exist_ok=True, symlinks=True)
    return programs


def promtool(*words: str, stdin: str | None = None) -> subprocess.CompletedProcess[str]:
    """Run promtool; the caller looks at the outcome."""
    return subprocess.run(
        [str(find_programs() / "promtool"), *words], input=stdin, capture_output=True, text=True, check=False
    )


class Prometheus:
    """A running server, asked over its HTTP API."""

    def __init__(self, url: str) -> None:
        self.url = url

    def get(self, path: str, **query: str) -> Any:
        with urlopen(f"{self.url}{path}?{urlencode(query)}", timeout=10) as answer:
            return json.load(answer)["data"]

    def query(self, expr: str) -> list[dict[str, Any]]:
        return list(self.get("/api/v1/query", query=expr)["result"])

    def is_ready(self) -> bool:
        try:
            with urlopen(f"{self.url}/-/ready", timeout=2) as answer:
                return bool(answer.status == 200)
        except (URLError, OSError):
            return False


@contextmanager
def running_prometheus(folder: Path, config: dict[str, Any]) -> Iterator[Prometheus]:
    """Prometheus with this configuration, until the end of the block."""
    file = folder / "prometheus.yml"
    file.write_text(json.dumps(config))  # JSON is YAML.
    port = _free_port()
    words = [
        str(find_programs() / "prometheus"),
        f"--config.file={file}",
        f"--storage.tsdb.path={folder / 'data'}",
        f"--web.listen-address=127.0.0.1:{port}",
    ]
    with (folder / "prometheus.log").open("wb") as log:
        process = subprocess.Popen(words, cwd=folder, stdout=log, stderr=log)
    try:
        server = Prometheus(f"http://127.0.0.1:{port}")
        wait_until("Prometheus is ready", server.is_ready)
        yield server
    finally:
        process.terminate()
        process.wait(30)


def _free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])
