"""Workers killed with SIGKILL at each step and started again: each effect counts once, or is reported.

For each step there is a topic with one message. One process works on all of them, stops in each at its step,
and is killed when it has come to all five.
"""

import json
import os
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from sqlalchemy import text

import driftq
from driftq.registry.sql_registry import MIGRATIONS
from driftq.sql import open_database, upgrade
from tests.acceptance.worker.mortal import STEPS
from tests.harness import ServerProcess
from tests.services_postgres import postgres_database_url, postgres_url

__all__ = ["postgres_database_url", "postgres_url"]

PATIENCE_S = 60.0
SCRIPT = Path(__file__).with_name("mortal.py")
REPEATED = ("after-effect", "before-commit")
"""Killed after the effect and before its mark."""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with ServerProcess(tmp_path_factory.mktemp("served") / "data") as running:
        yield running


@dataclass(frozen=True)
class Story:
    """A message for each step; the worker that is killed there, and the one that comes after it."""

    server: ServerProcess
    client: driftq.Client
    folder: Path
    effect: driftq.Effect
    databases: dict[str, str]
    """By step, where the record of effects is; empty for the broker's."""
    steps: tuple[str, ...] = STEPS
    environ: Mapping[str, str] = field(default_factory=dict)
    """What the workers are told besides."""

    def topic(self, step: str) -> str:
        return f"{self.folder.name}.{step}"

    def produce_each(self) -> None:
        for step in self.steps:
            self.client.create_topic(self.topic(step))
            self.client.produce(self.topic(step), step, idempotency_key="the-one")
        with self.worker("stops") as doomed:
            hear(doomed, {f"at {step}" for step in self.steps})
        with self.worker("finishes"):
            self.until_settled()

    @contextmanager
    def worker(self, how: str) -> Iterator[subprocess.Popen]:
        """A worker process, killed with SIGKILL at the end."""
        url = f"http://127.0.0.1:{self.server.port}"
        sites = [
            f"{self.topic(step)}={self.databases[step]}" if self.databases else self.topic(step)
            for step in self.steps
        ]
        with (self.folder / "errors").open("ab") as errors:
            process = subprocess.Popen(
                [sys.executable, str(SCRIPT), url, str(self.folder), str(self.effect), how, *sites],
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                env=os.environ | dict(self.environ),
            )
        try:
            yield process
        finally:
            process.kill()
            process.wait()
            assert process.stdout is not None
            process.stdout.close()

    def until_settled(self) -> None:
        end = time.monotonic() + PATIENCE_S
        waiting = set(self.steps)
        while waiting:
            for step in list(waiting):
                groups = self.client.topic(self.topic(step)).groups
                if groups and sum(group.lag for group in groups) == 0:
                    waiting.discard(step)
            assert time.monotonic() < end, f"not settled: {waiting}\n{self.errors()}"
            time.sleep(0.05)

    def errors(self) -> str:
        return (self.folder / "errors").read_text()[-4_000:]

    def runs(self) -> dict[str, int]:
        return Counter(self.lines("runs"))

    def lines(self, name: str) -> list[str]:
        file = self.folder / name
        return file.read_text().splitlines() if file.exists() else []

    def dead_letters(self, step: str) -> list[str]:
        topic = self.topic(step)
        if f"dlq.{topic}" not in self.client.topics():
            return []
        letters = self.client.call("GET", f"/v1/dlq/{topic}")["messages"]
        return [letter["envelope"]["dlq"]["last_error"] for letter in letters]


def hear(process: subprocess.Popen, lines: set[str]) -> None:
    """Until it has said all of this; one that does not is killed, and then its output ends."""
    assert process.stdout is not None
    patience = threading.Timer(PATIENCE_S, process.kill)
    patience.start()
    try:
        for said in process.stdout:
            lines.discard(said.strip())
            if not lines:
                return
    finally:
        patience.cancel()
    raise AssertionError(f"the worker did not say {lines}")


@pytest.fixture
def databases(request: pytest.FixtureRequest, tmp_path: Path) -> dict[str, str]:
    """SQLite has one writer, so there each step has a database of its own."""
    if request.param == "broker":
        return {}
    if request.param == "sqlite":
        made = {step: f"sqlite:///{tmp_path / step}.db" for step in STEPS}
    else:
        made = dict.fromkeys(STEPS, request.getfixturevalue("postgres_database_url"))
    for url in set(made.values()):
        database = open_database(url)
        upgrade(database, [MIGRATIONS])
        with database.transaction() as transaction:
            transaction.connection.execute(text("CREATE TABLE IF NOT EXISTS effects (name TEXT)"))
        database.close()
    return made


@pytest.fixture
def story(
    request: pytest.FixtureRequest, server: ServerProcess, databases: dict[str, str], tmp_path: Path
) -> Iterator[Story]:
    effect = {"idempotent": driftq.Effect.IDEMPOTENT, "unknown": driftq.Effect.UNKNOWN}
    named = next((one for name, one in effect.items() if name in request.node.name), None)
    with driftq.Client(f"http://127.0.0.1:{server.port}") as client:
        told = Story(server, client, tmp_path, named or driftq.Effect.TRANSACTIONAL, databases)
        told.produce_each()
        yield told


@pytest.mark.clause("I8", "K6", "I9")
@pytest.mark.parametrize("databases", ["broker", "postgres"], indirect=True)
def test_an_idempotent_effect_counts_once(story: Story) -> None:
    assert {file.name for file in story.folder.glob("effect-*")} == {f"effect-{step}" for step in STEPS}
    assert story.runs() == {step: 2 if step in REPEATED else 1 for step in STEPS}, story.errors()
    assert [story.dead_letters(step) for step in STEPS] == [[]] * len(STEPS)


@pytest.mark.clause("K6", "I8")
@pytest.mark.parametrize("databases", ["broker", "sqlite"], indirect=True)
def test_an_unknown_effect_is_reported_and_never_guessed(story: Story) -> None:
    assert story.runs() == {step: 1 for step in STEPS if step != "after-begin"}, story.errors()
    for step in STEPS:
        if step in ("after-begin", *REPEATED):
            (error,) = story.dead_letters(step)
            assert error.startswith("effect unknown: ")
        else:
            assert story.dead_letters(step) == []


@pytest.mark.clause("K6", "I8")
@pytest.mark.parametrize("databases", ["sqlite", "postgres"], indirect=True)
def test_a_transactional_effect_counts_once_and_its_duplicate_gets_the_result(story: Story) -> None:
    counted: Counter[str] = Counter()
    for url in set(story.databases.values()):
        database = open_database(url)
        with database.snapshot() as transaction:
            counted.update(
                row.name for row in transaction.connection.execute(text("SELECT name FROM effects"))
            )
        database.close()
    assert counted == dict.fromkeys(STEPS, 1), story.errors()
    assert story.runs() == {step: 2 if step in REPEATED else 1 for step in STEPS}
    assert [story.dead_letters(step) for step in STEPS] == [[]] * len(STEPS)
    settled = {
        name: (result, duplicate) for name, result, duplicate in map(json.loads, story.lines("settled"))
    }
    assert settled == {step: ({"done": step}, step == "before-ack") for step in STEPS}
