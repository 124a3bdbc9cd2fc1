"""The pipeline's tutorial as a newcomer uses it: pasted twice in a row. It starts Spark six times."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.docs.pasting import PATIENCE_S, ROOT, Shell, check
from tests.harness import ServerProcess

PAGE = "docs/tutorials/read-model.md"


@pytest.mark.timeout(2 * PATIENCE_S)
@pytest.mark.clause("N3")
def test_every_command_of_the_pipeline_s_tutorial_works_twice_in_a_row(tmp_path: Path) -> None:
    shown = [line for line in (ROOT / PAGE).read_text().splitlines() if line.startswith('{"aggregate_type"')]
    with ServerProcess(tmp_path / "driftq-data") as server:
        shell = Shell(tmp_path, server)
        for _ in range(2):
            pastes = list(shell.paste(ROOT / PAGE))
            check(PAGE, pastes)
            said = "".join(paste.said for paste in pastes)
            assert [line for line in said.splitlines() if line.startswith("{")] == shown
