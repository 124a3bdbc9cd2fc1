"""The documents point to things that exist and keep their own promises."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped]

from scripts.matrix import PARTS

ROOT = Path(__file__).resolve().parents[2]
DOCUMENTS = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
LINK = re.compile(r"\]\(([^)#\s]+)(?:#[^)]*)?\)")
DECISIONS = sorted((ROOT / "docs/adr").glob("0*.md"))
NO_PATHS = {
    "/v1",
    "append/",
    "seal/",
    "read/",
    "wire/",
    "api/",
    "producing/",
    "consuming/",
    "sync/",
    "ui/",
    "routes.py",
}
"""A route, and folders that are named beside the package that they are in."""
ROW = re.compile(r"^\| (?P<limit>[^|]+) \| (?P<verdict>[^|]+) \|$", re.MULTILINE)


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_relative_links_lead_to_a_file(document: Path) -> None:
    links = [link for link in LINK.findall(document.read_text(encoding="utf-8")) if "://" not in link]
    assert [link for link in links if not (document.parent / link).exists()] == []


def test_every_make_target_in_the_documents_exists() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    said = {
        target
        for document in DOCUMENTS
        for command in re.findall(
            r"(?:^|`)make ((?:[a-z-]+ ?)+)", document.read_text(encoding="utf-8"), re.MULTILINE
        )
        for target in command.split()
    }
    assert said - targets == set()


def test_every_suite_is_run_by_a_make_target() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    run = {
        suite
        for line in re.findall(r"^(?:SUITES|SERVICES) +:= (.*)$", makefile, re.MULTILINE)
        for suite in line.split()
    }
    run |= {Path(folder).parts[1] for part in PARTS for folder in part.tests}
    suites = {path.relative_to(ROOT / "tests").parts[0] for path in (ROOT / "tests").rglob("test_*.py")}
    assert suites <= run


def test_every_path_of_the_architecture_exists_and_the_page_stays_short() -> None:
    text = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    paths = [path for path in re.findall(r"`([\w./-]+)`", text) if "/" in path or path.endswith(".py")]
    roots = [ROOT, ROOT / "src/driftq"]
    assert len(paths) > 40
    assert [
        path for path in paths if path not in NO_PATHS and not any((root / path).exists() for root in roots)
    ] == []
    assert len(text.splitlines()) <= 120


def test_the_architecture_names_every_package() -> None:
    text = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    table = text.split("## Packages")[1].split("\n## ")[0]
    packages = {path.parent.name for path in (ROOT / "src/driftq").glob("*/__init__.py")}
    assert packages - set(re.findall(r"^\| `(\w+)/` ", table, re.MULTILINE)) == set()


def test_no_section_of_the_site_has_more_than_eight_entries() -> None:
    nav = (ROOT / "mkdocs.yml").read_text(encoding="utf-8").split("\nnav:\n")[1]
    sections = re.findall(r"^  - ([\w -]+):\n((?:      .*\n)+)", nav, re.MULTILINE)
    assert [name for name, _ in sections] == ["Tutorials", "How-to guides", "Reference", "Explanation"]
    for name, entries in sections:
        assert len(re.findall(r"^      - ", entries, re.MULTILINE)) <= 8, name


@pytest.mark.parametrize("page", DECISIONS, ids=lambda path: path.name)
def test_a_decision_follows_the_template(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    number = DECISIONS.index(page) + 1
    assert page.name.startswith(f"{number:04}-"), "numbers are consecutive"
    assert text.startswith(f"# {number:04} · ")
    status = r"\*\*Date:\*\* \d{4}-\d\d-\d\d · \*\*Status:\*\* (proposed|accepted|superseded by \[\d{4}\])"
    assert re.search(status, text)
    assert re.findall(r"^## (.*)$", text, re.MULTILINE) == ["Context", "Decision", "Consequences"]


def test_every_decision_is_listed() -> None:
    index = (ROOT / "docs/adr/index.md").read_text(encoding="utf-8")
    pages = {path.name for path in (ROOT / "docs/adr").glob("0*.md")}
    assert set(re.findall(r"\((0[^)]+\.md)\)", index)) == pages


@pytest.mark.clause("N3")
def test_each_limit_of_the_v1_texts_has_a_verdict() -> None:
    text = (ROOT / "docs/explanation/guarantees.md").read_text(encoding="utf-8")
    tables = text.split("## What the v1 texts do not guarantee")[1].split("\n### ")[1:]
    assert [table.splitlines()[0] for table in tables] == [
        "Broker and groups", "Partitions", "The log", "Envelope and router", "Idempotency", "Jobs", "Events",
    ]  # fmt: skip
    for table in tables:
        rows = [row for row in ROW.finditer(table) if not row["limit"].startswith("Not guaranteed")]
        assert rows
        for row in rows:
            assert row["verdict"].startswith(("**Stays", "**Lifted", "**Planned", "**To be lifted")), row[0]


@pytest.mark.clause("N3")
def test_the_guarantees_say_that_a_server_is_one_node() -> None:
    text = (ROOT / "docs/explanation/guarantees.md").read_text(encoding="utf-8")
    assert "## One server is one node" in text
    assert "never a second truth" in text


def nav_pages(nav: list[Any]) -> Iterator[str]:
    for entry in nav:
        for target in [entry] if isinstance(entry, str) else entry.values():
            yield from [target] if isinstance(target, str) else nav_pages(target)


def test_the_navigation_has_every_page_once() -> None:
    """Decisions may be left to their index, which another test compares with the folder."""
    nav = yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))["nav"]
    listed = list(nav_pages(nav))
    pages = {path.relative_to(ROOT / "docs").as_posix() for path in (ROOT / "docs").rglob("*.md")}
    assert len(listed) == len(set(listed))
    assert set(listed) <= pages
    assert {page for page in pages - set(listed) if not page.startswith("adr/")} == set()
