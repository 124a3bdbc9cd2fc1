"""A real S3 server for tests: the one in DRIFTQ_TEST_S3_ENDPOINT, else SeaweedFS on free ports."""

import contextlib
import datetime as dt
import json
import os
import secrets
import shutil
import socket
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import obstore
import pytest
from obstore.exceptions import BaseError
from obstore.store import S3Store

_START_SECONDS = 60
_STARTS = 5


@dataclass(frozen=True)
class S3Server:
    """Where the server is and how to be let in; each use takes a prefix of its own."""

    endpoint: str
    bucket: str
    access_key_id: str
    secret_access_key: str
    region: str = "us-east-1"

    def fresh_url(self) -> str:
        return f"s3://{self.bucket}/{uuid.uuid4().hex}"

    def is_ready(self) -> bool:
        """Whether it takes an object; it makes the bucket with the first."""
        moment = dt.timedelta(milliseconds=50)
        store = S3Store(
            self.bucket,
            endpoint=self.endpoint,
            region=self.region,
            access_key_id=self.access_key_id,
            secret_access_key=self.secret_access_key,
            client_options={"allow_http": True},
            retry_config={
                "max_retries": 0,
                "backoff": {"base": 2, "init_backoff": moment, "max_backoff": moment},
                "retry_timeout": dt.timedelta(seconds=2),
            },
        )
        try:
            obstore.put(store, "ready", b"")
        except (BaseError, OSError):
            return False
        return True


@pytest.fixture(scope="session")
def s3_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    endpoint = os.environ.get("DRIFTQ_TEST_S3_ENDPOINT", "")
    if endpoint:
        yield S3Server(
            endpoint,
            os.environ.get("DRIFTQ_TEST_S3_BUCKET", "driftq-test"),
            os.environ.get("DRIFTQ_TEST_S3_ACCESS_KEY_ID", ""),
            os.environ.get("DRIFTQ_TEST_S3_SECRET_ACCESS_KEY", ""),
        )
        return
    with seaweedfs(tmp_path_factory.mktemp("seaweedfs")) as server:
        yield server


@contextlib.contextmanager
def seaweedfs(folder: Path) -> Iterator[S3Server]:
    """A private server, its files in a folder; ended with the test run."""
    process, server = next(
        started for number in range(_STARTS) if (started := _start(folder / str(number), number)) is not None
    )
    try:
        yield server
    finally:
        process.kill()  # It takes half a minute to say goodbye, and nothing of it is kept.
        process.wait()


def _start(folder: Path, number: int) -> tuple[subprocess.Popen[bytes], S3Server] | None:
    """A server that takes objects; None if a port was taken by another process before the server had it."""
    ports = _free_ports(8)
    server = S3Server(f"http://127.0.0.1:{ports[-1]}", "driftq-test", "driftq", secrets.token_hex(16))
    (folder / "store").mkdir(parents=True)
    with (folder / "output").open("wb") as output:
        process = subprocess.Popen(
            _command(folder, ports, server), cwd=folder, stdout=output, stderr=subprocess.STDOUT
        )
    deadline = time.monotonic() + _START_SECONDS
    while not server.is_ready():
        if process.poll() is not None or time.monotonic() > deadline:
            process.kill()
            process.wait()
            said = (folder / "output").read_text()
            if "address already in use" in said and number < _STARTS - 1:
                return None
            raise RuntimeError(f"SeaweedFS did not start:\n{said[-4000:]}")
        time.sleep(0.1)
    return process, server


def _command(folder: Path, ports: list[int], server: S3Server) -> list[str]:
    identity = {
        "name": "test",
        "credentials": [{"accessKey": server.access_key_id, "secretKey": server.secret_access_key}],
        "actions": ["Admin", "Read", "Write", "List", "Tagging"],
    }
    access = folder / "access.json"
    access.write_text(json.dumps({"identities": [identity]}))
    names = [f"{part}.port{kind}" for part in ("master", "volume", "filer", "s3") for kind in (".grpc", "")]
    return [
        _binary(),
        "server",
        "-filer",
        "-s3",
        "-ip=127.0.0.1",
        "-ip.bind=127.0.0.1",
        f"-dir={folder / 'store'}",
        f"-s3.config={access}",
        "-s3.port.iceberg=0",
        "-s3.port.lance=0",
        "-master.telemetry=false",
        "-master.volumeSizeLimitMB=64",
        "-volume.max=20",
        *(f"-{name}={port}" for name, port in zip(names, ports, strict=True)),
    ]


def _binary() -> str:
    beside = Path(sys.executable).with_name("weed")
    return str(beside) if beside.exists() else shutil.which("weed") or "weed"


def _free_ports(count: int) -> list[int]:
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]
