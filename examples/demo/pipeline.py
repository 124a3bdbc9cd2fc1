"""The pipeline's part of the story: event store → publisher → topic → worker and projection, on Spark.

While it runs, first Spark's driver is killed with SIGKILL and then the server. Then we count from outside:
messages in the topic, rows that the handler wrote, and every row of the read model.
"""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import msgspec

from driftq.cli.connection import Connection
from driftq.errors import NotFound
from driftq.pipeline.read_model import rows as rows_of
from driftq.pipeline.runtime.status import JobStatus, PipelineJobState, StatusFolder
from driftq.settings import load_settings
from examples.demo import shop
from examples.demo.orders import TYPE, Writer, expected_rows
from examples.demo.screen import add_verdict, show, table, tell, wait_until, working
from examples.demo.server import Server

JOBS = ("publisher", "worker-ship", "projection-latest")
WAIT_S = 600.0
_STOP_S = 60.0


class Pipeline:
    """`driftq pipeline run publisher worker projection`, one process tree with one Spark session."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._data = server.folder
        self.folder = self._data / "pipeline"
        self.folder.mkdir(parents=True, exist_ok=True)
        self._is_stopped = False
        self._status = StatusFolder(str(self.folder))
        self.runs_file = self.folder / "shop_runs.txt"
        self._shop = sqlite3.connect(self.folder / "registry.db", isolation_level=None)
        self._shop.execute("PRAGMA journal_mode = WAL")
        self._shop.execute(shop.TABLE)
        self._errors = (self.folder / "supervisor.log").open("wb")
        command = ["publisher", "worker", "projection", "--app", shop.__file__]
        self.process = subprocess.Popen(
            [sys.executable, "-m", "driftq", "pipeline", "run", *command, *self._where()],
            stdin=subprocess.DEVNULL,
            stdout=self._errors,
            stderr=self._errors,
            start_new_session=True,  # Ctrl-C is for the demo, which ends its pipeline itself.
            env=os.environ | {shop.RUNS_FILE: str(self.runs_file)},
        )

    def job(self, name: str) -> JobStatus | None:
        return self._status.read(name)

    def running(self, *, not_driver: int) -> int:
        """How many jobs run, in another process than that one."""
        self._fail_if_over()
        jobs = [self.job(name) for name in JOBS]
        return sum(
            job is not None and job.state is PipelineJobState.RUNNING and job.driver != not_driver
            for job in jobs
        )

    def shipments(self) -> Counter[str]:
        """How often each event had its effect."""
        self._fail_if_over()
        return Counter(event_id for (event_id,) in self._shop.execute("SELECT event_id FROM shipments"))

    def has_rows(self, wanted: dict[str, tuple[int, Any]]) -> bool:
        """The read model is this; asked in this process, because it is asked often."""
        self._fail_if_over()
        options = load_settings().pipeline(url=self._server.url, data=str(self._data))
        try:
            found = [msgspec.to_builtins(row) for row in rows_of(options, "latest")]
        except NotFound:
            return False
        return {row["aggregate_id"]: (row["sequence_number"], row["state"]) for row in found} == wanted

    def rows(self) -> dict[str, tuple[int, Any]]:
        """The read model, as the command line gives it."""
        command = ["pipeline", "rows", "latest", "--json", *self._where()]
        said = subprocess.run(
            [sys.executable, "-m", "driftq", *command], capture_output=True, text=True, check=False
        ).stdout
        rows = [json.loads(line) for line in said.splitlines()]
        return {row["aggregate_id"]: (row["sequence_number"], row["state"]) for row in rows}

    def kill_driver(self) -> int:
        """SIGKILL; which process it was."""
        job = self.job("worker-ship")
        assert job is not None
        assert job.driver is not None
        os.kill(job.driver, signal.SIGKILL)
        return job.driver

    def stop(self) -> int:
        """Ask it to end; the exit code."""
        self._is_stopped = True
        self.process.send_signal(signal.SIGTERM)
        with working("the pipeline ends"):
            return self.process.wait(_STOP_S)

    def end(self) -> None:
        """Whatever happened: nothing of it goes on. It ends its driver, and all that the driver started."""
        try:
            if self.process.poll() is None:
                self.stop()
        except subprocess.TimeoutExpired:
            self.process.kill()  # Its driver notices, and ends itself.
            self.process.wait()
        self._shop.close()
        self._errors.close()

    def _where(self) -> list[str]:
        return ["--url", self._server.url, "--data", str(self._data)]

    def _fail_if_over(self) -> None:
        if self.process.poll() is not None and not self._is_stopped:
            sys.exit(f"The pipeline ended: {Path(self._errors.name).read_text()}")


def tell_pipeline_story(server: Server) -> bool:
    """True when every event had its effect exactly once and the read model is right, row by row."""
    pipeline = Pipeline(server)
    writer = Writer(server.url)
    try:
        return _story(server, pipeline, writer)
    finally:
        pipeline.end()
        writer.give_up()


def _story(server: Server, pipeline: Pipeline, writer: Writer) -> bool:
    stages = ", ".join(f"[b]{job}[/b]" for job in JOBS)
    tell(f"Spark starts, with three stages in one session: {stages}.")
    writer.start()
    orders = len(writer.lives)
    tell(f"Meanwhile a writer appends the first half of {writer.total} events of {orders} orders.")

    def events() -> str:
        return f"{writer.appended} of {writer.total} events appended, {len(pipeline.shipments())} shipped"

    def stages_and_events() -> str:
        return f"{pipeline.running(not_driver=killed)} of {len(JOBS)} stages run, {events()}"

    killed = 0

    third = writer.total // 3
    wait_until(
        "Spark starts and ships the first events",
        lambda: len(pipeline.shipments()) >= third,
        within_s=WAIT_S,
        how_far=stages_and_events,
    )
    killed = pipeline.kill_driver()
    tell(f"[red]kill -9[/red] for Spark's driver: {events()}.")
    wait_until(
        "the supervisor starts Spark again",
        lambda: pipeline.running(not_driver=killed) == len(JOBS),
        within_s=WAIT_S,
        how_far=stages_and_events,
    )
    tell("The supervisor ended what was left of Spark and started it again; the stages go on.")
    writer.go_on.set()
    wait_until(
        "the writer goes on",
        lambda: writer.appended > 0.6 * writer.total,
        within_s=WAIT_S,
        how_far=events,
    )
    server.kill()
    tell(f"[red]kill -9[/red] for the server: {events()}.")
    server.start()
    tell("A new server opens the same folder. Writer, publisher and readers find it again.")
    expected = expected_rows(writer.lives)
    wait_until(
        "the rest is appended and shipped",
        lambda: not writer.is_alive() and len(pipeline.shipments()) >= writer.total,
        within_s=WAIT_S,
        how_far=events,
    )
    wait_until("the read model catches up", lambda: pipeline.has_rows(expected), within_s=WAIT_S)
    code = pipeline.stop()
    tell(f"Everything is done. The pipeline was asked to stop and ended with exit code {code}.")
    return _count(server, pipeline, writer) and code == 0


def _count(server: Server, pipeline: Pipeline, writer: Writer) -> bool:
    wanted = {event.event_id for life in writer.lives for event in life}
    published, shipped = _published(server), pipeline.shipments()
    rows, expected = pipeline.rows(), expected_rows(writer.lives)
    wrong = [order for order in {*rows, *expected} if rows.get(order) != expected.get(order)]
    runs = pipeline.runs_file.read_text().split()
    counts = table("what happened to the events", "events", "where", "count")
    for what, where, number in (
        ("appended", "event store", writer.appended),
        ("published to topic events.order", "Spark stage publisher", sum(published.values())),
        ("effects: rows of the table shipments", "Spark stage worker-ship", sum(shipped.values())),
        ("handler runs that a kill undid", "Spark stage worker-ship", len(runs) - len(set(runs))),
        ("rows of the read model", "Spark stage projection-latest", len(rows)),
        ("rows that are not what they must be", "Spark stage projection-latest", len(wrong)),
    ):
        counts.add_row(what, where, str(number))
    lost = [event for event in wanted if not published[event] or not shipped[event]]
    doubled = [event for event in {*published, *shipped} if published[event] > 1 or shipped[event] > 1]
    sound = add_verdict(counts, lost=lost, doubled=doubled, cells=3)
    show(counts)
    return sound and not wrong and writer.appended == writer.total == len(wanted)


def _published(server: Server) -> Counter[str]:
    """How often each event is in the topic, read from the log without a group."""
    connection = Connection(server.url)
    topic = f"/v1/topics/events.{TYPE}"
    found: Counter[str] = Counter()
    for partition in connection.get(topic)["partitions"]:
        query = {"partition": partition["partition"], "from": 0, "limit": 1_000_000}
        lines = Connection(server.url).lines(f"{topic}/records", query)
        found.update(json.loads(json.loads(line)["value"])["event_id"] for line in lines)
    return found
