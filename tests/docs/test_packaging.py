"""The package asks for what it imports, and imports nothing that it does not ask for."""

import ast
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
OTHER_NAMES = {"opensearch-py": "opensearchpy", "opentelemetry-api": "opentelemetry"}
"""Modules that are not called as their package is."""


def module_name(requirement: str) -> str:
    name = re.match(r"[A-Za-z0-9._-]+", requirement)
    assert name
    return OTHER_NAMES.get(name[0]) or name[0].lower().replace("-", "_")


def imported_modules(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name.split(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module.split(".")[0]


def test_every_import_is_declared() -> None:
    extras = PROJECT["optional-dependencies"].values()
    declared = {module_name(text) for texts in [PROJECT["dependencies"], *extras] for text in texts}
    known = declared | set(sys.stdlib_module_names) | {"driftq"}
    undeclared = {
        f"{path.relative_to(ROOT).as_posix()} imports {module}"
        for path in (ROOT / "src").rglob("*.py")
        for module in imported_modules(path)
        if module not in known
    }
    assert undeclared == set()


def test_the_bare_install_stays_small() -> None:
    lock = (ROOT / "requirements/run.txt").read_text(encoding="utf-8")
    pinned = [
        line for line in re.findall(r"^[a-z0-9-]+==.*$", lock, re.MULTILINE) if "== 'win32'" not in line
    ]
    assert len(pinned) + 1 < 15
    assert len(pinned) + 1 == 14, "docs/index.md says fourteen"


def test_importing_costs_next_to_nothing() -> None:
    program = "import time; began = time.perf_counter(); import driftq; print(time.perf_counter() - began)"
    took = (
        float(subprocess.run([sys.executable, "-c", program], capture_output=True, check=True).stdout)
        for _ in range(20)
    )
    assert any(one < 0.15 for one in took)  # The first one that nobody disturbed is enough.


@pytest.mark.parametrize(
    ("old", "new"), [("sql", "postgres"), ("objects", "s3"), ("events", "postgres,s3"), ("tables", "parquet")]
)
def test_an_extra_of_earlier_releases_is_an_alias(old: str, new: str) -> None:
    assert PROJECT["optional-dependencies"][old] == [f"driftq[{new}]"]


def test_every_extra_that_a_text_tells_to_install_exists() -> None:
    texts = [*(ROOT / "src").rglob("*.py"), *(ROOT / "docs").rglob("*.md"), ROOT / "README.md"]
    told = {
        extra.strip()
        for path in texts
        for extras in re.findall(r"install ['\"]?driftq\[([a-z0-9, ]+)\]", path.read_text(encoding="utf-8"))
        for extra in extras.split(",")
    }
    assert told
    assert not told & {"sql", "objects", "events", "tables"}, "names of earlier releases"
    assert told <= set(PROJECT["optional-dependencies"])
