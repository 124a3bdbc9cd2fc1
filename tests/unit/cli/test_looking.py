"""Commands that look make nothing, and a server that is refused leaves nothing behind."""

import json
import socket
from pathlib import Path

import pytest

from tests.harness import ServerProcess
from tests.unit.cli.conftest import Run
from tests.unit.cli.test_start import refused_start


@pytest.mark.clause("N1")
@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["registry", "list"], "there is no folder typo"),
        (["registry", "requeue", "charge", "event-1"], "there is no folder typo"),
        (["registry", "resolve", "charge", "event-1", "--as", "done"], "there is no folder typo"),
        (["pipeline", "status"], "there is no folder typo"),
        (["pipeline", "rows", "latest"], "there is no read model 'latest'"),
    ],
)
def test_looking_into_a_folder_that_is_not_there_does_not_make_it(
    run: Run, folder: Path, words: list[str], said: str
) -> None:
    looked = run(*words, "--data", "typo")
    assert looked.exit_code == 1
    assert said in looked.stderr
    assert list(folder.iterdir()) == []


@pytest.mark.clause("N1")
def test_without_a_folder_there_are_no_claims_and_no_jobs(run: Run, folder: Path) -> None:
    assert run("registry", "list").stdout == "no claims are dead\n"
    assert json.loads(run("registry", "list", "--json").stdout) == {"claims": []}
    missing = run("registry", "requeue", "charge", "event-1")
    assert (missing.exit_code, missing.stderr) == (
        1,
        "error: handler 'charge' has no claim on event 'event-1'\n",
    )
    assert run("pipeline", "status").stdout.startswith("no job has run here yet")
    assert list(folder.iterdir()) == []


@pytest.mark.clause("W4")
def test_doctor_tells_a_server_s_folder_from_any_other(run: Run, folder: Path) -> None:
    missing = run("doctor", "typo")
    assert (missing.exit_code, missing.stderr) == (1, "error: there is no folder typo\n")
    (folder / "mine" / "log").mkdir(parents=True)
    (folder / "mine" / "log" / "notes.txt").write_text("not a log")
    for name in ("mine", "mine/log", "."):
        other = run("doctor", name)
        assert (other.exit_code, other.stdout) == (1, "")
        assert other.stderr == f"error: {name} is not the folder of a server: there is no log in it\n"


@pytest.mark.clause("N1")
def test_a_start_on_a_port_in_use_leaves_no_folder(folder: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        assert "is in use by another program" in refused_start(folder, "--port", port, "--data", "fresh")
    assert list(folder.iterdir()) == []


@pytest.mark.clause("N1")
@pytest.mark.parametrize(
    "options",
    [
        ["--host", "no-such-host.invalid"],
        ["--host", "0.0.0.0"],
        ["--router", "nowhere:route"],
        ["--router-rules", "nowhere.toml"],
    ],
)
def test_a_start_with_bad_options_leaves_no_folder(folder: Path, options: list[str]) -> None:
    refused_start(folder, "--port", "0", "--data", "fresh", *options)
    assert list(folder.iterdir()) == []


@pytest.mark.clause("W1")
def test_a_second_server_is_refused_and_the_first_can_still_be_found(folder: Path) -> None:
    with ServerProcess(folder / "data") as first:
        before = sorted(str(path) for path in first.data.rglob("*"))
        address = (first.data / "address").read_text()
        said = refused_start(folder, "--port", "0", "--data", "data")
        assert "is in use by another DriftQ server" in said
        assert (first.data / "address").read_text() == address
        assert sorted(str(path) for path in first.data.rglob("*")) == before
