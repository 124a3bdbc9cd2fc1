"""What `driftq serve` refuses, and the commands that need no server."""

import json
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import get_args

import pytest

from driftq.cli.config import ProfileName
from driftq.cli.router import RouterNotUsable, load_router
from driftq.cli.serve import FsyncName, is_loopback
from driftq.server.io_threads import Fsync
from driftq.settings import PROFILES, SETTINGS
from tests.harness import ServerProcess
from tests.unit.cli.conftest import Run

ROUTING = """
from driftq import RoutingDecision
def route(topic, message):
    if "invoice" in message.value:
        return RoutingDecision(label="finance", target_topic="finance")
"""


def test_the_words_of_the_options_are_those_of_the_code() -> None:
    assert get_args(ProfileName) == tuple(PROFILES)
    assert get_args(FsyncName) == tuple(Fsync)


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.8.8", "::1", "localhost"])
def test_these_addresses_stay_on_the_machine(host: str) -> None:
    assert is_loopback(host)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", "8.8.8.8"])
def test_other_addresses_need_a_word(run: Run, host: str) -> None:
    refused = run("serve", "--host", host, "--port", "0")
    assert refused.exit_code == 1
    assert f"error: {host} can be reached from other machines" in refused.stderr
    assert "--insecure" in refused.stderr


def test_a_bad_setting_refuses_the_start_and_is_named(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DRIFTQ_BROKER_IN_FLIGHT_MAX", "none")
    monkeypatch.setenv("DRIFTQ_BROKER_IN_FLIGHT", "1")
    refused = run("serve", "--port", "0")
    assert refused.exit_code == 1
    first, second = refused.stderr.splitlines()
    assert (
        first == "error: DRIFTQ_BROKER_IN_FLIGHT is not a setting; did you mean DRIFTQ_BROKER_IN_FLIGHT_MAX?"
    )
    assert second.startswith("error: DRIFTQ_BROKER_IN_FLIGHT_MAX is 'none'; it must be a whole number from 1")


def refused_start(folder: Path, *options: str) -> str:
    """What a server that cannot start says."""
    environ = {name: value for name, value in os.environ.items() if not name.startswith("DRIFTQ_")}
    command = [sys.executable, "-m", "driftq", "serve", *options]
    done = subprocess.run(
        command, cwd=folder, env=environ, capture_output=True, text=True, timeout=20, check=False
    )
    assert done.returncode == 1, done
    assert "Traceback" not in done.stderr
    assert done.stdout == ""
    return done.stderr


def test_a_port_in_use_is_said(folder: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        said = refused_start(folder, "--port", str(port))
    assert said == (
        f"error: 127.0.0.1 port {port} is in use by another program; "
        "choose another with --port, or 0 for a free one\n"
    )


@pytest.mark.clause("Y1", "Y5")
@pytest.mark.parametrize(
    ("options", "said"),
    [
        (
            ("--api-keys", "missing.json"),
            "the keys file missing.json cannot be used: no such file or directory",
        ),
        (("--api-keys", "broken.pem"), "the keys file broken.pem cannot be used: it is not JSON"),
        (
            ("--tls-cert", "missing.pem"),
            "the file missing.pem cannot be used for TLS: no such file or directory",
        ),
        (("--tls-cert", "broken.pem"), "the file broken.pem cannot be used for TLS: "),
        (("--tls-key", "server.key"), "--tls-key and --tls-client-ca need --tls-cert"),
    ],
)
def test_keys_and_certificates_that_cannot_be_used_are_said(
    folder: Path, options: tuple[str, ...], said: str
) -> None:
    (folder / "broken.pem").write_text("nonsense")
    (folder / "broken.pem").chmod(0o600)
    assert f"error: {said}" in refused_start(folder, "--port", "0", *options)
    assert sorted(file.name for file in folder.iterdir()) == ["broken.pem"]


@pytest.mark.clause("N1")
def test_a_flag_wins_over_its_variable_and_the_variable_over_the_default(folder: Path) -> None:
    environ = {
        "DRIFTQ_PORT": "1",
        "DRIFTQ_HOST": "192.0.2.1",
        "DRIFTQ_NO_WAL": "true",
        "DRIFTQ_PROFILE": "v1-dev",
    }
    with ServerProcess(folder / "data", env=environ) as server:  # It passes --host, --port and --data.
        assert "(in memory, nothing is kept)" in server.output
        client = server.client()
        client.post("/v1/topics", {"name": "small"})
        refused = client.post("/v1/produce", {"topic": "small", "value": "more than twenty bytes"})
        assert refused.status == 429
    environ = {"DRIFTQ_FSYNC": "off"}
    with ServerProcess(folder / "kept", env=environ) as server:
        assert server.client().get("/v1/version").body["fsync"] == "off"
    with ServerProcess(folder / "kept", "--fsync", "interval", env=environ) as server:
        assert server.client().get("/v1/version").body["fsync"] == "interval"


def test_a_folder_that_cannot_be_used_is_said(folder: Path) -> None:
    (folder / "file").write_text("")
    said = refused_start(folder, "--port", "0", "--data", "file")
    assert "error: the folder file/log cannot be used: a file is in its place" in said


def test_an_address_that_is_nowhere_is_said(folder: Path) -> None:
    said = refused_start(folder, "--port", "0", "--host", "no-such-host.invalid")
    assert "error: cannot listen on no-such-host.invalid port 0: " in said


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("routing", "give it as module:attr"),
        ("routing:", "give it as module:attr"),
        ("nowhere:route", "there is no module 'nowhere'"),
        ("routing:missing", "module 'routing' has no attribute 'missing'"),
        ("routing:NUMBER", "'NUMBER' is a int and cannot be called"),
        ("needy:route", "module 'needy' needs 'nowhere_else', which is not installed"),
        ("broken:route", "importing 'broken' failed: ZeroDivisionError"),
    ],
)
def test_a_router_that_cannot_be_used_is_explained(
    folder: Path, monkeypatch: pytest.MonkeyPatch, name: str, problem: str
) -> None:
    (folder / "routing.py").write_text("NUMBER = 7\ndef route(topic, message): return None\n")
    (folder / "needy.py").write_text("import nowhere_else\n")
    (folder / "broken.py").write_text("1 / 0\n")
    monkeypatch.setattr(sys, "path", list(sys.path))
    for module in ("routing", "needy", "broken"):
        monkeypatch.delitem(sys.modules, module, raising=False)
    with pytest.raises(RouterNotUsable, match=f"--router {name}: {problem}"):
        load_router(name)
    assert callable(load_router("routing:route"))


@pytest.mark.clause("R1", "R6")
def test_a_router_is_found_in_the_current_directory(folder: Path) -> None:
    (folder / "routing.py").write_text(ROUTING)
    assert "no attribute 'router'" in refused_start(folder, "--port", "0", "--router", "routing:router")
    with ServerProcess(folder / "data", "--no-wal", "--router", "routing:route") as server:
        client = server.client()
        for name in ("orders", "finance"):
            client.post("/v1/topics", {"name": name})
        assert (
            client.post("/v1/produce", {"topic": "orders", "value": "an invoice"}).body["topic"] == "finance"
        )
        assert client.post("/v1/produce", {"topic": "orders", "value": "a coffee"}).body["topic"] == "orders"
        (routed,) = server.stream("finance", "g", "me").take(1)
        assert routed["routing"] == {"label": "finance"}


def test_config_lists_every_knob_and_where_its_value_came_from(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DRIFTQ_BROKER_RETENTION_MS", "1000")
    listed = json.loads(run("config", "--json", "--profile", "v1-dev").stdout)
    assert [row["name"] for row in listed["settings"]] == [spec.name for spec in SETTINGS]
    rows = {row["name"]: (row["value"], row["source"], row["default"]) for row in listed["settings"]}
    assert rows["DRIFTQ_BROKER_RETENTION_MS"] == (1000, "environment", 604_800_000)
    assert rows["DRIFTQ_BROKER_PARTITION_BYTES_MAX"] == (20, "profile", 1 << 30)
    assert rows["DRIFTQ_URL"] == ("http://127.0.0.1:8080", "default", "http://127.0.0.1:8080")
    shown = run("config", "--profile", "v1-dev").stdout
    assert all(spec.name in shown for spec in SETTINGS)
    assert "profile v1-dev" in shown


def test_version_says_what_this_is(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DRIFTQ_COMMIT", "0123abc")
    assert run("version").stdout.startswith("driftq 0.")
    assert json.loads(run("version", "--json").stdout)["commit"] == "0123abc"


def test_no_server_is_said_and_how_to_get_one(run: Run) -> None:
    with socket.create_server(("127.0.0.1", 0)) as nobody:
        port = nobody.getsockname()[1]
    said = run("topic", "list", "--url", f"http://127.0.0.1:{port}")
    assert said.exit_code == 1
    assert said.stderr == (
        f"error: no DriftQ server answers at http://127.0.0.1:{port}: connection refused\n"
        "error: start one with `driftq serve`, or name another with --url or DRIFTQ_URL\n"
    )


def test_client_commands_do_not_load_the_server() -> None:
    code = "import sys, driftq.cli.app; print(*[name for name in sys.modules if name in %r])"
    heavy = ("uvloop", "httptools", "msgspec", "driftq.server", "driftq.http", "driftq.log", "rich.table")
    done = subprocess.run([sys.executable, "-c", code % (heavy,)], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []


def test_a_server_starts_without_the_other_commands() -> None:
    program = """
import gc, sys, uvloop
from driftq.cli import main
uvloop.new_event_loop = lambda: sys.exit(f"{gc.isenabled()} " + " ".join(sorted(sys.modules)))
sys.argv = ["driftq", "serve", "--no-wal", "--port", "0"]
main()
"""
    done = subprocess.run([sys.executable, "-c", program], check=False, capture_output=True, text=True)
    collecting, *loaded = done.stderr.split()
    assert collecting == "False"
    assert "driftq.cli.serving" in loaded
    others = {"driftq.cli.app", "driftq.cli.produce", "driftq.cli.pipeline", "driftq.transport.blocking"}
    assert not others & {*loaded}
    assert not {"sqlalchemy", "pyarrow", "obstore", "opentelemetry", "rich"} & {*loaded}


def test_a_server_is_ready_without_a_search_for_garbage() -> None:
    program = """
import gc, signal, sys
import driftq.cli.serving as serving
from driftq.cli import main
gc.disable()
searches = []
gc.callbacks.append(lambda phase, facts: searches.append(facts["generation"]))
def ready(*_):
    print(len(searches), gc.isenabled(), gc.get_freeze_count() > 10_000)
    signal.raise_signal(signal.SIGTERM)
serving._ready = ready
sys.argv = ["driftq", "serve", "--no-wal", "--port", "0"]
main()
"""
    done = subprocess.run([sys.executable, "-c", program], check=False, capture_output=True, text=True)
    assert done.stdout.split() == ["0", "True", "True"], done.stderr
