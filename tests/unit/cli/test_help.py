"""Every command's help ends with examples, and the examples work."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer.main

import driftq
from driftq.cli.app import app
from driftq.registry import Effect, EventKey, GapPolicy, Handler
from driftq.registry.sql_registry import SqlRegistry
from driftq.sinks import SqliteSink
from driftq.sql.sqlite import SqliteDatabase
from tests.harness import ServerProcess
from tests.unit.cli.conftest import Run

APP = """
from driftq.pipeline import App, Projection
app = App()
app.projection(Projection("all", topics=["orders"]))
"""
LASTING = {
    "serve",
    "worker",
    "job work",
    "event follow",
    "publish",
    "outbox run",
    "pipeline run",
    "pipeline package",
}
"""They run until they are told to stop, start Spark or pack all of it: their examples are only read here."""
PARKED = Handler("charge", Effect.IDEMPOTENT, GapPolicy.FULL_STATE, max_retries=0, lease_ms=60_000)
STATIC = Path(driftq.__file__).parent / "http/ui/static"
UNKNOWN = Handler("charge", Effect.UNKNOWN, GapPolicy.FULL_STATE, max_retries=0, lease_ms=60_000)


def leaves(command: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    for word, child in getattr(command, "commands", {}).items():
        path = f"{name} {word}".strip()
        if child.hidden:
            continue  # Another name of a command that is shown.
        if hasattr(child, "commands"):
            yield from leaves(child, path)
        else:
            yield path, child


COMMANDS = dict(leaves(typer.main.get_command(app)))


def examples_of(run: Run, name: str) -> list[list[str]]:
    _, _, behind = run(*name.split(), "--help").stdout.partition("Example")
    lines = [line.strip() for line in behind.splitlines()]
    return [shlex.split(line)[1:] for line in lines if line.startswith("driftq ")]


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Path]:
    """A folder in which somebody has worked with DriftQ for a while; the server's data is in it."""
    with ServerProcess(tmp_path / "driftq-data", "--fsync", "off") as server:
        (tmp_path / "url").write_text(f"http://127.0.0.1:{server.port}")
        _make_messages(server)
        _make_claims(tmp_path / "driftq-data" / "pipeline" / "registry.db")
        SqliteSink(str(tmp_path / "driftq-data" / "pipeline" / "read_models.db")).connect(
            "latest"
        ).take_over()
        (tmp_path / "orders.csv").write_text("user,drink\nada,tea\ngrace,coffee\n")
        (tmp_path / "app.py").write_text(APP)
        yield tmp_path


def _make_messages(server: ServerProcess) -> None:
    client = server.client()
    for name in ("orders", "clicks"):
        client.post("/v1/topics", {"name": name, "partitions": 3 if name == "orders" else 1})
    message = {"topic": "orders", "key": "user:1", "value": "{}", "envelope": {"run_id": "nightly-7"}}
    for _ in range(4):
        assert client.post("/v1/produce", message).body["partition"] == 1
    held = {"partition": 1, "topic": "orders", "group": "billing", "owner": "me"}
    stream = server.stream("orders", "billing", "me", lease_ms=600_000, prefetch=2)
    assert [one["offset"] for one in stream.take(2)] == [0, 1]
    stream.close()
    given_up = server.stream("orders", "audit", "me", prefetch=1)
    (lost,) = given_up.take(1)
    nack = held | {"group": "audit", "offset": lost["offset"], "retryable": False, "reason": "no"}
    assert client.post("/v1/nack", nack).status == 204
    given_up.close()
    step = {"topic": "steps", "group": "agent", "idempotency_key": "step:nightly-7/charge", "owner": "me"}
    begun = client.post("/v1/idempotency/begin", step | {"lease_ms": 1, "effect": "unknown"})
    assert begun.body["outcome"] == "proceed"


def _make_claims(file: Path) -> None:
    file.parent.mkdir(parents=True)
    database = SqliteDatabase(str(file))
    registry = SqlRegistry(database)
    for handler, event in ((PARKED, "event-1"), (UNKNOWN, "event-2")):
        claim = registry.claim(handler, EventKey(event, "order", event, 1))
        if handler is PARKED:
            registry.mark_failed(claim, error="no", retryable=False)
        else:
            registry.mark_unknown(claim, error="no answer")
    database.close()


@pytest.mark.clause("N1")
def test_the_help_of_every_command_ends_with_examples_that_work(
    run: Run, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(place)
    monkeypatch.setenv("DRIFTQ_URL", (place / "url").read_text())
    for name, command in COMMANDS.items():
        words = name.split()
        examples = examples_of(run, name)
        assert examples, f"driftq {name} --help shows no example"
        for example in examples:
            assert example[: len(words)] == words
            if name in LASTING:
                command.make_context(name, example[len(words) :])
                continue
            done = run(*example)
            assert done.exit_code == 0, f"driftq {' '.join(example)}: {done.output}"


@pytest.mark.clause("O4", "O5")
def test_every_command_that_the_dashboard_suggests_exists() -> None:
    """Its empty pages say what to type; names of topics and aggregates stand in the text as `${…}`."""
    scripts = "\n".join(file.read_text() for file in STATIC.rglob("*.js"))
    found = re.findall(r'"(driftq (?:\\"|[^"])+)"|`(driftq [^`]+)`', scripts)
    assert len(found) > 10
    for plain, template in found:
        _, *words = shlex.split(re.sub(r"\$\{\w+\}", "orders", template) or plain.replace('\\"', '"'))
        name = max((name for name in COMMANDS if words[: len(name.split())] == name.split()), key=len)
        COMMANDS[name].make_context(name, words[len(name.split()) :])  # Raises for what it does not take.


def test_the_first_page_of_help_says_how_to_begin(run: Run) -> None:
    first = run("--help").stdout
    for line in ("driftq serve", "driftq topic create orders", 'driftq produce orders "two coffees"'):
        assert line in first
    assert "..." not in first.partition("Commands:")[2], "no command is cut off"


@pytest.mark.clause("N1")
def test_version_is_an_option_too(run: Run) -> None:
    asked = run("--version")
    assert (asked.exit_code, asked.stdout) == (0, run("version").stdout)
