"""A stage for Spark drivers that are killed at each point between claim and mark, on both engines.

In each round twelve workers are stopped, two for each kind of effect on SQLite and on PostgreSQL, each at its
point; with two rounds that is every point for every one of them. Then driver, JVM and Python workers get
SIGKILL, and the next driver starts from the same checkpoint.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import psutil
from sqlalchemy import text

from driftq.pipeline.worker.store import WorkerStore
from driftq.registry import ClaimState, Effect, Resolution
from driftq.registry.sql_registry import MIGRATIONS, SqlRegistry
from driftq.sinks import open_sink
from driftq.sql import Database, open_database, upgrade
from tests.harness import ServerProcess
from tests.spark.killed_worker.handlers import APPLIED, POINTS, TOPIC, Site, sites
from tests.spark.order_events import publish

PATIENCE_S = 600
LEASE_S = 600
"""So long that nobody could wait for its end: whoever is gone is known to be gone."""
ROUNDS = (0, 1)
EVERY = sorted(f"{name}-{nth}-1" for nth in ROUNDS for name in ("round", "calm"))
"""The ids of all events."""
DRIVER = Path(__file__).with_name("driver.py")
ROOT = Path(__file__).parents[3]


@dataclass(frozen=True)
class Theatre:
    server: ServerProcess
    folder: Path
    postgres_url: str
    environ: Mapping[str, str] = field(default_factory=dict)
    """What the drivers are told besides."""

    def create_topic(self) -> None:
        assert self.server.client().post("/v1/topics", {"name": TOPIC, "partitions": 1}).status == 201

    def publish(self, events: Sequence[tuple[str, int]]) -> None:
        """Aggregates and sequences, to the topic that the workers read."""
        publish(self.server, TOPIC, events)

    def database(self, site: Site) -> Database:
        file = Path(site.folder, "pipeline", "registry.db")
        return open_database(f"sqlite:///{file}" if site.engine == "sqlite" else self.postgres_url)

    def prepare(self) -> None:
        for site in sites(self.folder):
            Path(site.folder).mkdir()
            database = self.database(site)
            upgrade(database, [MIGRATIONS])
            with database.transaction() as transaction:
                made = (
                    "CREATE TABLE IF NOT EXISTS {effects} (handler {text} NOT NULL, event_id {text} NOT NULL)"
                )
                transaction.connection.execute(text(database.renderer.render(made)))
            database.close()

    def driver(self, which: str) -> subprocess.Popen[bytes]:
        env = os.environ | {
            "PYTHONPATH": os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")])),
            "ROUND": which,
            "SITES": str(self.folder),
            "PROCESSED_EVENT_LEASE_TIMEOUT_SECONDS": str(LEASE_S),
            **self.environ,
        }
        url = f"http://127.0.0.1:{self.server.port}"
        with (self.folder / "output").open("ab") as output:
            return subprocess.Popen(
                [sys.executable, DRIVER, url, self.folder, self.postgres_url],
                env=env,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )

    def kill_in(self, nth: int) -> None:
        """Let all workers come to their points of this round, and kill everything."""
        running = self.driver(str(nth))
        wanted = [Path(site.folder, f"stopped-{nth}") for site in sites(self.folder)]
        try:
            self.until(lambda: all(file.exists() for file in wanted), running)
        finally:
            kill_session(running)

    def finish(self) -> None:
        running = self.driver("never")
        try:
            self.until(lambda: running.poll() is not None)
        finally:
            kill_session(running)
        assert running.returncode == 0, self.output()

    def until(self, holds: Callable[[], bool], running: subprocess.Popen[bytes] | None = None) -> None:
        end = time.monotonic() + PATIENCE_S
        while not holds():
            assert running is None or running.poll() is None, self.output()
            assert time.monotonic() < end, self.output()
            time.sleep(0.05)

    def output(self) -> str:
        return (self.folder / "output").read_text(errors="replace")[-6_000:]

    def rows(self, site: Site) -> dict[str, int]:
        """How often each event is in the table of effects."""
        database = self.database(site)
        query = "SELECT event_id, count(*) FROM {effects} WHERE handler = :handler GROUP BY event_id"
        with database.snapshot() as transaction:
            found = transaction.connection.execute(
                text(database.renderer.render(query)), {"handler": site.name}
            )
            rows = {row[0]: row[1] for row in found}
        database.close()
        return rows


def kill_session(leader: subprocess.Popen[bytes]) -> None:
    """SIGKILL for every process of the session: Spark's Python workers have a group of their own."""
    for process in psutil.process_iter():
        with suppress(ProcessLookupError, psutil.NoSuchProcess):
            if os.getsid(process.pid) == leader.pid:
                os.kill(process.pid, signal.SIGKILL)
    leader.wait()


def runs(site: Site) -> dict[str, int]:
    file = Path(site.folder, "runs")
    return Counter(file.read_text().splitlines()) if file.exists() else {}


def applied(site: Site) -> set[str]:
    """Events that were killed after their effect."""
    return {f"round-{nth}-1" for nth in ROUNDS if POINTS[site.name][nth] in APPLIED}


def play(theatre: Theatre) -> None:
    """Two rounds, each with a kill, and a driver that finishes: one effect for each event, or a question."""
    theatre.prepare()
    stage = sites(theatre.folder)
    theatre.create_topic()
    for nth in ROUNDS:
        theatre.publish([(f"round-{nth}", 1), (f"calm-{nth}", 1)])
        theatre.kill_in(nth)
        for site in stage:
            assert f"round-{nth}-1" not in theatre.rows(site), "what was not marked is not kept"
    for site in stage:
        if site.effect is Effect.UNKNOWN:
            resolve(theatre, site)
    theatre.finish()
    for site in stage:
        once = dict.fromkeys(EVERY, 1)
        match site.effect:
            case Effect.TRANSACTIONAL:
                assert theatre.rows(site) == once, site.name
            case Effect.IDEMPOTENT:
                assert sorted(os.listdir(Path(site.folder, "effects"))) == EVERY, site.name
                # A calm event whose mark was gathered, or that another task ran, may be repeated too.
                calm = {f"calm-{nth}-1": min(2, runs(site)[f"calm-{nth}-1"]) for nth in ROUNDS}
                assert runs(site) == once | calm | dict.fromkeys(applied(site), 2), site.name
            case Effect.UNKNOWN:
                assert runs(site) == once, site.name
        database = theatre.database(site)
        done = SqlRegistry(database).list_claims(ClaimState.DONE, handler=site.name)
        assert sorted(claim.event_id for claim in done) == EVERY, site.name
        database.close()


def resolve(theatre: Theatre, site: Site) -> None:
    """Each killed effect was reported; look whether it happened, and say so."""
    database = theatre.database(site)
    registry = SqlRegistry(database)
    WorkerStore.on(registry, liveness_folder=Path(site.folder, "pipeline", "workers")).abandon_ended_owners()
    registry.report_unknown()  # The last one: no driver has come by since.
    unknown = [claim.event_id for claim in registry.list_claims(ClaimState.UNKNOWN, handler=site.name)]
    # Another task may have been in the middle of a calm event: then that is unknown as well.
    assert {f"round-{nth}-1" for nth in ROUNDS} <= set(unknown), site.name
    assert all(event_id.startswith(("round-", "calm-")) for event_id in unknown), site.name
    in_rounds = {event_id for event_id in unknown if event_id.startswith("round-")}
    assert runs(site).keys() & in_rounds == applied(site), site.name
    for event_id in unknown:
        answer = Resolution.DONE if event_id in runs(site) else Resolution.RETRY
        registry.resolve(site.name, event_id, answer, by="the test")
    database.close()


def assert_documents(theatre: Theatre, addresses: Sequence[str]) -> None:
    """Each idempotent handler has a document for each event in each of these sinks."""
    wanted = {event_id.rpartition("-")[0]: (1, {"event": event_id}) for event_id in EVERY}
    for site in sites(theatre.folder):
        for name, address in site.sinks(addresses).items():
            model = open_sink(address).connect(name)
            stored = {row.aggregate_id: (row.sequence_number, row.state) for row in model.rows()}
            model.close()
            assert stored == wanted, name
