"""Workers whose effect is a document in TerminusDB, killed with SIGKILL or stopped at each step.

For each step there is a topic with one message. One process works on all of them and stops in each at its
step.
"""

import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

import driftq
from driftq.registry.sql_registry import MIGRATIONS
from driftq.sinks.terminusdb import TerminusSink
from driftq.sql import open_database, upgrade
from tests.acceptance.terminusdb.mortal import NAME, STEPS
from tests.acceptance.worker.test_killed import hear
from tests.harness import ServerProcess
from tests.services_terminusdb import count_document_commits, terminus_database_url, terminus_url
from tests.support.waiting import wait_until

__all__ = ["terminus_database_url", "terminus_url"]

ROOT = Path(__file__).resolve().parents[3]
REPEATED = ("after-apply", "before-mark-done")
"""Killed after the effect and before its mark."""


@dataclass(frozen=True)
class Story:
    """A message for each step; the worker that stops there, and the one that comes after it."""

    client: driftq.Client
    url: str
    sink: str
    folder: Path

    def topic(self, step: str) -> str:
        return f"orders.{step}"

    def produce(self, step: str, value: str) -> None:
        self.client.produce(self.topic(step), value, key=step)

    @contextmanager
    def worker(self, how: str) -> Iterator[subprocess.Popen]:
        """A worker process, killed with SIGKILL at the end."""
        sites = [f"{self.topic(step)}=sqlite:///{self.folder / step}.db" for step in STEPS]
        with (self.folder / "errors").open("ab") as errors:
            process = subprocess.Popen(
                [
                    sys.executable,
                    "-m",
                    "tests.acceptance.terminusdb.mortal",
                    self.url,
                    str(self.folder),
                    self.sink,
                    how,
                    *sites,
                ],
                cwd=ROOT,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                env=os.environ,
            )
        try:
            yield process
        finally:
            process.kill()
            process.wait()
            assert process.stdout is not None
            process.stdout.close()

    def until_settled(self, *steps: str) -> None:
        wait_until("all messages are settled", lambda: all(map(self._is_settled, steps)))

    def _is_settled(self, step: str) -> bool:
        groups = self.client.topic(self.topic(step)).groups
        return bool(groups) and sum(group.lag for group in groups) == 0

    def runs(self) -> Counter[str]:
        return Counter((self.folder / "runs").read_text().splitlines())

    def documents(self) -> dict[str, str]:
        model = TerminusSink(self.sink).connect(NAME)
        return {row.aggregate_id: row.state["at"] for row in model.rows()}


@pytest.fixture
def story(tmp_path: Path, terminus_database_url: str) -> Iterator[Story]:
    for step in STEPS:
        database = open_database(f"sqlite:///{tmp_path / step}.db")
        upgrade(database, [MIGRATIONS])
        database.close()
    with ServerProcess(tmp_path / "data") as server:
        url = f"http://127.0.0.1:{server.port}"
        with driftq.Client(url) as client:
            told = Story(client, url, terminus_database_url, tmp_path)
            for step in STEPS:
                client.create_topic(told.topic(step))
            yield told


@pytest.mark.clause("X2", "V7", "K2")
def test_a_worker_killed_at_each_step_stores_each_document_once(story: Story) -> None:
    for step in STEPS:
        story.produce(step, "first")
    with story.worker("stops") as doomed:
        hear(doomed, {f"at {step}" for step in STEPS})
    assert story.documents() == dict.fromkeys(REPEATED, "first")
    with story.worker("finishes"):
        story.until_settled(*STEPS)
    assert story.documents() == dict.fromkeys(STEPS, "first")
    again = {"before-apply", *REPEATED}
    assert story.runs() == {f"{step} first": 2 if step in again else 1 for step in STEPS}
    # A repeat changes nothing, and makes no commit.
    assert count_document_commits(story.sink, NAME) == len(STEPS)


@pytest.mark.clause("K4", "V7")
def test_a_worker_that_has_lost_its_claim_cannot_bring_an_old_document_back(story: Story) -> None:
    story.produce("before-apply", "first")
    with story.worker("stops") as late:
        hear(late, {"at before-apply"})
        late.send_signal(signal.SIGSTOP)  # No heartbeat keeps its claim.
        with story.worker("finishes"):
            story.produce("before-apply", "second")
            story.until_settled("before-apply")
        assert story.documents() == {"before-apply": "second"}
        (story.folder / "go").touch()
        late.send_signal(signal.SIGCONT)
        hear(late, {"at applied late"})
    assert story.runs() == {"before-apply first": 2, "before-apply second": 1}
    assert story.documents() == {"before-apply": "second"}
