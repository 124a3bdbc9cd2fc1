"""`driftq key`: a key is printed once, and the file keeps what it may do."""

import json
from pathlib import Path

import pytest

from driftq.access.keys import bearer
from tests.unit.cli.conftest import Run


@pytest.mark.clause("Y4")
def test_a_key_is_created_listed_and_revoked(run: Run, folder: Path) -> None:
    options = ["--file", "keys.json", "--role", "produce", "--role", "consume", "--topic", "orders*"]
    created = run("key", "create", "billing", *options, "--requests-per-s", "5")
    text = created.stdout.strip()
    assert bearer(f"Bearer {text}".encode()) is not None
    assert "shown once" in created.stderr
    secret = text.rpartition("_")[2]
    assert secret not in (folder / "keys.json").read_text()
    (listed,) = json.loads(run("key", "list", "--file", "keys.json", "--json").stdout)["keys"]
    assert (listed["name"], listed["roles"]) == ("billing", ["produce", "consume"])
    assert (listed["topics"], listed["requests_per_s"]) == (["orders*"], 5)
    shown = run("key", "list", "--file", "keys.json").stdout
    assert "billing" in shown
    assert secret not in shown
    assert run("key", "revoke", listed["id"], "--file", "keys.json").exit_code == 0
    assert run("key", "list", "--file", "keys.json").stdout == "there are no keys\n"


def test_a_name_is_used_once(run: Run, folder: Path) -> None:
    assert run("key", "create", "ops", "--file", "keys.json", "--role", "admin").exit_code == 0
    again = run("key", "create", "ops", "--file", "keys.json", "--role", "read")
    assert again.exit_code == 1
    assert again.stdout == ""
    assert "there is a key 'ops' already" in again.stderr


def test_the_environment_names_the_file(run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "--file or DRIFTQ_API_KEYS_FILE" in run("key", "list").stderr
    monkeypatch.setenv("DRIFTQ_API_KEYS_FILE", str(folder / "mine.json"))
    assert run("key", "create", "ops", "--role", "admin", "--json").exit_code == 0
    assert (folder / "mine.json").exists()
    missing = run("key", "revoke", "nobody")
    assert (missing.exit_code, "there is no key 'nobody'" in missing.stderr) == (1, True)


@pytest.mark.parametrize(
    "arguments",
    [
        ("a b", "--role", "read"),
        ("ops",),
        ("ops", "--role", "root"),
        ("ops", "--role", "read", "--topic", "a b"),
    ],
)
def test_what_is_no_key_is_not_created(run: Run, folder: Path, arguments: tuple[str, ...]) -> None:
    assert run("key", "create", "--file", "keys.json", *arguments).exit_code == 2
    assert not (folder / "keys.json").exists()


@pytest.mark.clause("Y3")
def test_a_key_belongs_to_a_tenant(run: Run, folder: Path) -> None:
    created = run("key", "create", "acme", "--file", "keys.json", "--role", "admin", "--tenant", "acme")
    assert (created.exit_code, created.stdout.startswith("dq_")) == (0, True)
    (listed,) = json.loads(run("key", "list", "--file", "keys.json", "--json").stdout)["keys"]
    assert listed["tenant"] == "acme"
    wrong = run("key", "create", "x", "--file", "keys.json", "--role", "read", "--tenant", "a b")
    assert "--tenant is 1 to 100 characters" in wrong.stderr
