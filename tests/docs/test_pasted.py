"""README and docs as a newcomer uses them: every command is pasted twice in a row; each ends, and works."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docs.pasting import ROOT, Shell, check
from tests.harness import ServerProcess

PAGES = [
    "docs/tutorials/quickstart.md", "docs/tutorials/coffee-bar.md", "docs/how-to/operate.md",
    "docs/how-to/backup.md", "docs/how-to/events.md", "docs/how-to/failed-messages.md",
    "docs/explanation/jobs.md",
]  # fmt: skip
"""README is pasted in tests/services. Pages that only start Spark are run by the tests of the pipeline."""


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[Shell]:
    with ServerProcess(tmp_path / "driftq-data") as server:
        yield Shell(tmp_path, server)


@pytest.mark.clause("N3")
@pytest.mark.parametrize("page", PAGES)
def test_every_command_of_a_page_ends_and_works_twice_in_a_row(shell: Shell, page: str) -> None:
    for _ in range(2):
        pastes = list(shell.paste(ROOT / page))
        assert pastes, "there is something to paste"
        check(page, pastes)


@pytest.mark.clause("N3")
def test_the_quickstart_s_story_is_what_happens(shell: Shell) -> None:
    said = "".join(paste.said for paste in shell.paste(ROOT / "docs/tutorials/quickstart.md"))
    assert said.count("204 No Content") == 3, "extended, nacked and acked"
    assert '"attempts":1,"last_error":"","key":"user:1"' in said
    assert '"attempts":2,"last_error":"out of milk"' in said
    assert "HTTP/1.1 4" not in said
