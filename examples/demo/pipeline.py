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

from driftq.cli.connection import Connection
from driftq.pipeline.status import JobState, JobStatus, StatusFolder
from examples.demo import shop
from examples.demo.orders import TYPE, Writer, expected_rows
from examples.demo.screen import add_verdict, show, table, tell, wait_until
from examples.demo.server import Server

JOBS = ("publisher", "worker-ship", "projection-latest")
WAIT_S = 600.0


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
            stderr=self._errors,
            env=os.environ | {shop.RUNS_FILE: str(self.runs_file)},
        )

    def job(self, name: str) -> JobStatus | None:
        return self._status.read(name)

    def is_up(self, *, not_driver: int) -> bool:
        """All jobs run, in another process than that one."""
        self._fail_if_over()
        jobs = [self.job(name) for name in JOBS]
        return all(job and job.state is JobState.RUNNING and job.driver != not_driver for job in jobs)

    def shipments(self) -> Counter[str]:
        """How often each event had its effect."""
        self._fail_if_over()
        return Counter(event_id for (event_id,) in self._shop.execute("SELECT event_id FROM shipments"))

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
        self._is_stopped = True
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(60)

    def end(self) -> None:
        """Whatever happened: nothing of it goes on."""
        self.process.kill()  # Its driver ends itself with everything it started.
        self.process.wait()
        self._shop.close()
        self._errors.close()

    def _where(self) -> list[str]:
        return ["--url", self._server.url, "--data", str(self._data)]

    def _fail_if_over(self) -> None:
        if self.process.poll() is not None and not self._is_stopped:
            sys.exit(f"the pipeline ended: {Path(self._errors.name).read_text()}")


def tell_pipeline_story(server: Server) -> bool:
    """True when every event had its effect exactly once and the read model is right, row by row."""
    pipeline = Pipeline(server)
    try:
        return _story(server, pipeline)
    finally:
        pipeline.end()


def _story(server: Server, pipeline: Pipeline) -> bool:
    stages = ", ".join(f"[b]{job}[/b]" for job in JOBS)
    tell(f"Spark starts with three stages in one session: {stages}")
    writer = Writer(server.url)
    writer.start()
    orders = len(writer.lives)
    tell(f"meanwhile a writer appends the first half of {writer.total} events of {orders} orders")
    third = writer.total // 3
    wait_until("a third is shipped", lambda: len(pipeline.shipments()) >= third, within_s=WAIT_S)
    killed = pipeline.kill_driver()
    tell(f"[red]kill -9[/red] for Spark's driver, with {len(pipeline.shipments())} events shipped")
    wait_until("Spark is back", lambda: pipeline.is_up(not_driver=killed), within_s=WAIT_S)
    tell("the supervisor has ended what was left of it and started another driver, which goes on")
    writer.go_on.set()
    wait_until("more is appended", lambda: writer.appended > 0.6 * writer.total, within_s=WAIT_S)
    server.kill()
    tell(f"[red]kill -9[/red] for the server, with {writer.appended} of {writer.total} events appended")
    server.start()
    tell("a new server has the same folder: writer, publisher and readers find it again")
    expected = expected_rows(writer.lives)
    writer.join(WAIT_S)
    wait_until("all is shipped", lambda: len(pipeline.shipments()) >= writer.total, within_s=WAIT_S)
    wait_until("the read model is there", lambda: pipeline.rows() == expected, within_s=WAIT_S)
    code = pipeline.stop()
    tell(f"everything is done; the pipeline was asked to stop and ended with exit code {code}")
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
        ("appends repeated because no answer came", "event store", writer.repeats),
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
