"""The pages of docs/reference say what the code does; each is compared with the thing itself."""

import json
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator  # type: ignore[import-untyped]

from driftq.http.api.openapi import document
from driftq.http.api.router import ROUTES
from driftq.settings import SETTINGS
from scripts.reference import __main__ as reference
from scripts.reference.http_page import HERE, SECTIONS
from scripts.reference.http_types import Types
from scripts.reference.markdown import with_guides
from tests.contract.serving import Server

ROOT = Path(__file__).resolve().parents[2]
HTTP = (ROOT / "docs/reference/http.md").read_text(encoding="utf-8")
CLI = (ROOT / "docs/reference/cli.md").read_text(encoding="utf-8")
METRICS = (ROOT / "docs/reference/metrics.md").read_text(encoding="utf-8")
SETTINGS_PAGE = (ROOT / "docs/reference/settings.md").read_text(encoding="utf-8")
NOTES = (HERE / "http_notes.md").read_text(encoding="utf-8")
DOCUMENT = document(ROUTES, version="")
TYPES = Types(DOCUMENT["components"]["schemas"])
OPERATIONS = {
    f"{method.upper()} {path}": operation
    for path, operations in DOCUMENT["paths"].items()
    for method, operation in operations.items()
}


def noted_json() -> list[tuple[str, str]]:
    """Each JSON block of the hand-written notes, with the route whose section it is in."""
    sections = re.split(r"^## (.+)$", NOTES, flags=re.MULTILINE)[1:]
    return [
        (name, block)
        for name, text in zip(sections[::2], sections[1::2], strict=True)
        for block in re.findall(r"^```json\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    ]


def fits(block: str, operation: Mapping[str, Any]) -> bool:
    """Whether the server would accept the text as a request, or could give it as an answer."""
    contents = [operation.get("requestBody", {}), *operation["responses"].values()]
    schemas = [one["schema"] for content in contents for one in content.get("content", {}).values()]
    lines = [one.get("description", "").removeprefix("Lines of ") for one in schemas]
    schemas += [{"$ref": f"#/components/schemas/{name}"} for name in lines if name in TYPES.schemas]
    example = json.loads(block)
    for schema in schemas:
        whole = schema | {"components": DOCUMENT["components"]}
        # A reply's schema allows further fields; an example must not show one.
        if Draft202012Validator(whole).is_valid(example) and set(example) <= set(TYPES.fields(schema)):
            return True
    return False


@pytest.mark.clause("O5")
def test_every_page_is_what_the_code_says() -> None:
    assert list(reference.outdated()) == []


@pytest.fixture(scope="module", autouse=True)
def pages_made_once() -> Iterator[None]:
    """Each page takes a second or more to be made, and the code stays as it is."""
    with pytest.MonkeyPatch.context() as patched:
        for name, page in reference.PAGES.items():
            patched.setitem(reference.PAGES, name, cache(page))
        yield


def test_a_page_that_differs_fails_the_check_and_is_mended_by_writing(tmp_path: Path, capsys) -> None:
    assert reference.main(["--check"], root=tmp_path) == 1
    assert "docs/reference/http.md is not what the code says" in capsys.readouterr().err
    assert reference.main([], root=tmp_path) == 0
    assert reference.main(["--check"], root=tmp_path) == 0
    page = tmp_path / "docs/reference/metrics.md"
    page.write_text(page.read_text().replace("counter", "histogram", 1))
    assert reference.main(["--check"], root=tmp_path) == 1


@pytest.mark.clause("O5")
@pytest.mark.parametrize("name", OPERATIONS)
def test_every_route_has_a_section(name: str) -> None:
    assert HTTP.count(f"### {name}\n") == 1


@pytest.mark.parametrize(("name", "block"), noted_json())
def test_every_json_block_is_a_request_or_an_answer_of_its_route(name: str, block: str) -> None:
    assert fits(block, OPERATIONS[name])


def test_an_example_with_a_field_that_does_not_exist_is_found() -> None:
    assert not fits('{"status":"ok","histograms":1}', OPERATIONS["GET /v1/healthz"])


def test_the_sections_of_the_http_page_are_few() -> None:
    assert len(SECTIONS) <= 8


@pytest.mark.clause("O5")
def test_the_metrics_of_a_running_server_are_those_of_the_page(tmp_path: Path) -> None:
    with Server(tmp_path / "log") as server:
        text = server.get("/v1/metrics").content.decode()
    exposed = dict(re.findall(r"^# TYPE (driftq_\w+) (\w+)$", text, re.MULTILINE))
    section = METRICS.split("## Server")[1].split("\n## ")[0]
    assert dict(re.findall(r"^\| `(driftq_\w+)` \| (\w+) \|", section, re.MULTILINE)) == exposed


@pytest.mark.clause("O5")
def test_every_setting_is_listed_once_with_its_readers() -> None:
    rows = re.findall(r"^\| `([A-Z0-9_]+)` \| .* \| .* \| (.*) \| .* \|$", SETTINGS_PAGE, re.MULTILINE)
    assert sorted(name for name, _ in rows) == sorted(spec.name for spec in SETTINGS)
    assert [name for name, readers in rows if not readers.strip()] == []


@pytest.mark.parametrize("name", ["DRIFTQ_TRANSPORT"])
def test_a_setting_that_stops_its_command_says_so(name: str) -> None:
    row = next(line for line in SETTINGS_PAGE.splitlines() if line.startswith(f"| `{name}` |"))
    assert "**Not available yet**" in row


@pytest.mark.clause("O5")
def test_every_command_of_the_program_has_a_section() -> None:
    said = subprocess.run(
        [sys.executable, "-m", "driftq", "topic", "--help"], capture_output=True, text=True, check=True
    ).stdout
    listed = re.findall(r"^  (\w+) ", said.split("Commands:")[1], re.MULTILINE)
    assert listed
    assert [word for word in listed if f"## driftq topic {word}\n" not in CLI] == []


def test_a_link_to_a_guide_follows_the_page_to_its_section(tmp_path: Path) -> None:
    (tmp_path / "how-to").mkdir()
    (tmp_path / "how-to/retries.md").write_text("# Retries\n")
    assert with_guides("[x](guide:retries.md#a)", tmp_path) == "[x](../how-to/retries.md#a)"
    with pytest.raises(LookupError, match=r"0 pages under docs are called tables\.md"):
        with_guides("[x](guide:tables.md)", tmp_path)
