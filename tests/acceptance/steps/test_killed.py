"""Agents killed with SIGKILL around their effect: the charge counts once, or a person decides."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import driftq
from tests.harness import ServerProcess

SCRIPT = Path(__file__).with_name("agent.py")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with ServerProcess(tmp_path_factory.mktemp("served") / "data") as running:
        yield running


class Story:
    """One run with its ledger."""

    def __init__(self, server: ServerProcess, folder: Path, effect: str) -> None:
        self.server = server
        self.run_id = folder.name
        self.ledger = folder / "ledger"
        self.effect = effect

    def agent(self, stop: str = "never") -> subprocess.Popen[str]:
        url = f"http://127.0.0.1:{self.server.port}"
        arguments = [url, self.run_id, self.effect, str(self.ledger), stop]
        return subprocess.Popen([sys.executable, str(SCRIPT), *arguments], stdout=subprocess.PIPE, text=True)

    def killed_at(self, stop: str) -> None:
        with self.agent(stop) as doomed:
            assert doomed.stdout is not None
            assert doomed.stdout.readline() == f"at {stop}\n"
            doomed.kill()

    def said(self) -> str:
        with self.agent() as agent:
            said, _ = agent.communicate(timeout=60)
            assert agent.returncode == 0
            return said.strip()

    @property
    def charges(self) -> int:
        return len(self.ledger.read_text().splitlines()) if self.ledger.exists() else 0


@pytest.mark.clause("I11")
def test_a_result_is_returned_to_every_later_run(server: ServerProcess, tmp_path: Path) -> None:
    story = Story(server, tmp_path, "unknown")
    story.killed_at("after-commit")
    assert [story.said(), story.said()] == ["result: {'charges': 1}"] * 2
    assert story.charges == 1


@pytest.mark.clause("I11")
def test_a_kill_between_effect_and_commit_leaves_the_step_unknown(
    server: ServerProcess, tmp_path: Path
) -> None:
    story = Story(server, tmp_path, "unknown")
    story.killed_at("after-effect")
    assert story.said() == "unknown: charge"
    server.restart()
    assert story.said() == "unknown: charge", "a restart of the server decides nothing"
    with driftq.Client(f"http://127.0.0.1:{server.port}") as client:
        assert client.explain_run(story.run_id).state == "unknown"
        client.idempotency.resolve(
            topic="steps",
            group="agent",
            idempotency_key=f"step:{story.run_id}/charge",
            by="ada",
            happened=True,
            result={"charges": 1},
        )
        assert client.explain_run(story.run_id).state == "done"
    assert story.said() == "result: {'charges': 1}"
    assert story.charges == 1


@pytest.mark.clause("I11")
def test_a_step_that_is_resolved_as_not_happened_runs_again(server: ServerProcess, tmp_path: Path) -> None:
    story = Story(server, tmp_path, "unknown")
    story.killed_at("before-effect")
    assert story.said() == "unknown: charge"
    resolve = ["step", "resolve", story.run_id, "charge", "--as", "retry"]
    url = f"http://127.0.0.1:{server.port}"
    subprocess.run([sys.executable, "-m", "driftq", *resolve, "--url", url], check=True)
    assert story.said() == "result: {'charges': 1}"
    assert story.charges == 1


@pytest.mark.clause("I11")
@pytest.mark.parametrize(("stop", "charges"), [("before-effect", 1), ("after-effect", 2)])
def test_a_killed_idempotent_step_runs_again_by_itself(
    server: ServerProcess, tmp_path: Path, stop: str, charges: int
) -> None:
    story = Story(server, tmp_path, "idempotent")
    story.killed_at(stop)
    assert story.said() == f"result: {{'charges': {charges}}}"
