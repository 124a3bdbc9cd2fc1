"""The command line in this process, and one real server for all of it."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from typer.testing import CliRunner

from driftq.cli.app import app
from tests.harness import ServerProcess

Run = Callable[..., Any]


@pytest.fixture(scope="session")
def real_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with ServerProcess(tmp_path_factory.mktemp("server") / "data", "--fsync", "off") as started:
        yield started


@pytest.fixture(autouse=True)
def plain_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("DRIFTQ_URL", "DRIFTQ_DATA", "DRIFTQ_COMMIT"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def run() -> Run:
    """Run a command without a server."""
    runner = CliRunner()

    def invoke(*arguments: str, stdin: str | bytes | None = None) -> Any:
        return runner.invoke(app, list(arguments), input=stdin, catch_exceptions=False)

    return invoke


@pytest.fixture
def run_client(run: Run, real_server: ServerProcess, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run a client command against the server."""
    monkeypatch.setenv("DRIFTQ_URL", f"http://127.0.0.1:{real_server.port}")
    return run


@pytest.fixture
def topic(run_client: Run) -> str:
    name = f"orders-{uuid4().hex[:8]}"
    assert run_client("topic", "create", name, "--partitions", "3").exit_code == 0
    return name


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path
