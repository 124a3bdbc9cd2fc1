"""Every client sends its key, says what to do without one, and shows it nowhere."""

from __future__ import annotations

import asyncio
import logging
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import driftq
from driftq.errors import (
    KeyMissing,
    KeyUnknown,
    PermissionDenied,
    RoleMissing,
    TopicNotAllowed,
    Unauthenticated,
)
from driftq.settings import load_credentials
from driftq.transport.server import Server as PipelineServer
from driftq.transport.server import check_server
from tests.contract.keyed import KeyedServer

WORKER = """
import driftq

client = driftq.Client({url!r})
worker = driftq.Worker(client, group="workers")

@worker.on("orders", effect=driftq.Effect.IDEMPOTENT)
def handle(message, context):
    print("handled", message.value, flush=True)
    worker.ask_to_stop()
"""


@pytest.fixture(scope="module")
def keyed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KeyedServer]:
    server = KeyedServer(tmp_path_factory.mktemp("keyed"))
    server.reading = server.add_key("reading", "read", topics=["orders"])  # type: ignore[attr-defined]
    with server as running:
        yield running


@pytest.fixture
def url(keyed: KeyedServer, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.delenv("DRIFTQ_API_KEY", raising=False)
    return f"http://127.0.0.1:{keyed.port}"


def command(
    folder: Path, keyed: KeyedServer, *arguments: str, key: str | None
) -> subprocess.CompletedProcess[str]:
    environ = {name: value for name, value in os.environ.items() if not name.startswith("DRIFTQ_")}
    environ["DRIFTQ_URL"] = f"http://127.0.0.1:{keyed.port}"
    if key is not None:
        environ["DRIFTQ_API_KEY"] = key
    return subprocess.run(
        [sys.executable, "-m", "driftq", *arguments],
        cwd=folder,
        env=environ,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.mark.clause("Y1", "Y4")
def test_the_client_sends_its_key_from_its_argument_or_the_environment(
    keyed: KeyedServer, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with driftq.Client(url, api_key=keyed.admin) as client:
        client.create_topic("orders")
        client.produce("orders", {"id": 1})
    with driftq.Client(url) as client, pytest.raises(KeyMissing, match="DRIFTQ_API_KEY"):
        client.topics()
    with driftq.Client(url, api_key=keyed.admin[:-1]) as client, pytest.raises(KeyUnknown, match="revoked"):
        client.topics()
    monkeypatch.setenv("DRIFTQ_API_KEY", keyed.admin)
    with driftq.Client(url) as client:
        assert "orders" in client.topics()
        with client.consume("orders", "readers") as consumer:
            next(iter(consumer)).ack()
    with driftq.EventStore(url) as store:
        assert list(store.read("order", "1")) == []


@pytest.mark.clause("Y2")
def test_a_refusal_comes_back_as_its_class_from_every_way_in(keyed: KeyedServer, url: str) -> None:
    reading: str = keyed.reading  # type: ignore[attr-defined]
    with driftq.Client(url, api_key=reading) as client:
        with pytest.raises(RoleMissing, match="needs produce or admin") as produce:
            client.produce("orders", "x")
        assert (produce.value.key, produce.value.needs) == ("reading", "produce or admin")
        with pytest.raises(PermissionDenied):
            client.create_topic("more")
        with pytest.raises(RoleMissing), client.consume("orders", "g") as consumer:
            next(iter(consumer))
        with pytest.raises(TopicNotAllowed):
            client.topic("others")

    async def ask() -> None:
        async with driftq.AsyncClient(url, api_key=reading) as client:
            with pytest.raises(RoleMissing):
                await client.produce("orders", "x")

    asyncio.run(ask())
    pipeline = PipelineServer(url, credentials=load_credentials(api_key=reading))
    with pytest.raises(TopicNotAllowed):
        pipeline.content("/v1/topics/others")
    pipeline.close()
    with pytest.raises(Unauthenticated):
        check_server(url)
    check_server(url, load_credentials(api_key=reading))


@pytest.mark.clause("Y4")
def test_a_full_run_shows_no_secret(
    keyed: KeyedServer, url: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The commands, a worker and the clients: what they print, log, raise and represent."""
    caplog.set_level(logging.DEBUG)
    (tmp_path / "app.py").write_text(WORKER.format(url=url))
    runs = [
        command(tmp_path, keyed, "topic", "create", "orders", key=keyed.admin),
        command(tmp_path, keyed, "produce", "orders", "two coffees", key=keyed.admin),
        command(tmp_path, keyed, "topic", "list", key=keyed.admin),
        command(tmp_path, keyed, "config", key=keyed.admin),
        command(tmp_path, keyed, "config", "--json", key=keyed.admin),
        command(tmp_path, keyed, "worker", "app:worker", key=keyed.admin),
    ]
    assert [run.returncode for run in runs] == [0] * len(runs), [run.stderr for run in runs]
    assert "DRIFTQ_API_KEY" in runs[3].stdout
    wrong = command(tmp_path, keyed, "topic", "list", key=keyed.admin[:-1])
    assert (wrong.returncode, "the API key is not valid here" in wrong.stderr) == (1, True)
    broken = command(tmp_path, keyed, "topic", "list", key=f"{keyed.admin} \n")
    assert "DRIFTQ_API_KEY is '***'" in broken.stderr
    options = driftq.client.ClientOptions(api_key=keyed.admin)
    with driftq.Client(url, options=options) as client:
        said = [repr(options), repr(client), repr(load_credentials(api_key=keyed.admin)), repr(vars(client))]
        with pytest.raises(driftq.errors.DriftQError) as error:
            client.topic("missing")
        said += [repr(error.value), repr(vars(error.value))]
    said += [run.stdout + run.stderr for run in (*runs, wrong, broken)]
    said += [caplog.text, keyed.logged, keyed.ask("GET", "/v1/metrics", key=keyed.admin).content.decode()]
    secret = keyed.admin.rpartition("_")[2][:-1]
    for text in said:
        assert secret not in text
