"""The walk of docs/tutorials/network.md in two network namespaces: a server with TLS and keys, its clients.

The page's own commands make the namespaces, install the wheel and do the rest. They run as root of a user
namespace, which needs no rights on the machine.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs/tutorials/network.md"
NEW_ROOT = ("unshare", "--user", "--map-root-user", "--net", "--mount")
REFUSED = "refuses"
"""The word of the page before commands that all have to fail."""
WITHIN_S = 600
INSTALL = "driftq-env/bin/pip install"


@dataclass(frozen=True)
class Block:
    """Commands of the page, the machine that they run on, and what the page says they print."""

    machine: str
    commands: str
    shown: str
    must_fail: bool


def blocks(text: str) -> list[Block]:
    found = []
    for section in re.split(r"^## ", text, flags=re.MULTILINE)[1:]:
        machine = re.match(r"On the (server|client)", section)
        said = ""
        for part in re.split(r"^(```\w+\n.*?^```\n)", section, flags=re.DOTALL | re.MULTILINE):
            kind, _, inside = part.partition("\n")
            content = inside.removesuffix("```\n")
            if kind == "```sh":
                found.append(Block(machine[1] if machine else "", content, "", REFUSED in said))
            elif kind == "```text":
                found[-1] = replace(found[-1], shown=content)
            else:
                said = part.strip() or said
    return found


def script(page: list[Block], notes: Path) -> str:
    """All blocks in turn; what each prints goes to `N.out`, and commands that fail to `N.failed`."""
    lines = ["mount -t tmpfs tmpfs /run", "mkdir /run/netns"]
    for number, block in enumerate(page):
        file, exported = notes / f"{number}.sh", notes / f"exported.{block.machine}"
        exported.touch()
        noted = f"trap 'echo \"$BASH_COMMAND\" >> {notes}/{number}.failed' ERR"
        file.write_text(f". {exported}\n{noted}\n{block.commands}\nexport -p > {exported}\n")
        where = f"ip netns exec {block.machine} " if block.machine else ""
        lines.append(f"{where}bash {file} > {notes}/{number}.out 2>&1")
    return "\n".join(lines)


def compare(page: list[Block], notes: Path) -> None:
    for number, block in enumerate(page):
        said = (notes / f"{number}.out").read_text()
        failed = notes / f"{number}.failed"
        commands = failed.read_text().splitlines() if failed.exists() else []
        expected = block.commands.splitlines() if block.must_fail else []
        assert commands == expected, f"{block.commands}\n{said}"
        if block.shown:
            assert said.splitlines() == block.shown.splitlines(), block.commands


def install(block: Block, folder: Path) -> None:
    """The page's own lines, by the test's Python and with the versions of the lock file."""
    uv = f"{sys.executable} -m uv"
    commands = block.commands.replace("python3 -m venv", f"{uv} venv --quiet --python {sys.executable}")
    into = f"{uv} pip install --quiet --python driftq-env/bin/python --constraint {ROOT}/requirements/dev.txt"
    assert INSTALL in commands
    done = subprocess.run(
        ["bash", "-ec", commands.replace(INSTALL, into)],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The project's wheel, built as a release builds it."""
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "uv", "build", "--quiet", "--no-build-isolation", "--wheel"]
    subprocess.run([*command, "--python", sys.executable, "--out-dir", str(folder)], cwd=ROOT, check=True)
    [found] = folder.glob("driftq-*.whl")
    return found


@pytest.mark.clause("Y1", "Y2", "Y5", "Y8")
@pytest.mark.timeout(2 * WITHIN_S)
def test_every_line_of_the_walk_does_what_the_page_says(wheel: Path, tmp_path: Path) -> None:
    machines = subprocess.run([*NEW_ROOT, "true"], capture_output=True, text=True, check=False)
    if machines.returncode != 0:
        pytest.skip(f"no network namespaces can be made here: {machines.stderr.strip()}")
    work, notes = tmp_path / "work", tmp_path / "notes"
    work.mkdir()
    notes.mkdir()
    (work / wheel.name).symlink_to(wheel)
    page = blocks(PAGE.read_text())
    assert {block.machine for block in page} == {"", "server", "client"}
    [installing] = [block for block in page if INSTALL in block.commands]
    page.remove(installing)
    install(installing, work)
    environment = {name: value for name, value in os.environ.items() if not name.startswith("DRIFTQ_")}
    environment |= {"PATH": f"{work}/driftq-env/bin:{os.environ['PATH']}", "COLUMNS": "200"}
    walk = subprocess.Popen(
        [*NEW_ROOT, "bash", "-c", script(page, notes)], cwd=work, env=environment, start_new_session=True
    )
    try:
        walk.wait(WITHIN_S)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(walk.pid, signal.SIGKILL)
    compare(page, notes)
    logs = [work / name for name in ("server.log", "spark.log", "keys.json", "data/audit.log")]
    for name in ("ops.key", "shop.key"):
        secret = (work / name).read_text().strip().rpartition("_")[2]
        assert [log.name for log in logs if secret in log.read_text()] == []
    assert "Traceback" not in (work / "server.log").read_text()
