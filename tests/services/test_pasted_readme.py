"""README as a newcomer uses it: pasted twice in a row. It starts Spark twice."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docs.pasting import PATIENCE_S, ROOT, Shell, check
from tests.harness import ServerProcess


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[Shell]:
    with ServerProcess(tmp_path / "driftq-data") as server:
        yield Shell(tmp_path, server)


@pytest.mark.timeout(2 * PATIENCE_S)  # It starts Spark twice.
@pytest.mark.clause("N3")
def test_every_line_of_the_readme_works_twice_in_a_row(shell: Shell) -> None:
    said = []
    for _ in range(2):
        pastes = list(shell.paste(ROOT / "README.md"))
        check("README.md", pastes)
        said.append([paste.said for paste in pastes])
    (curl, python, spark), (curl_again, python_again, spark_again) = said
    assert '"duplicate":false' in curl
    assert '"value":"two coffees"' in curl, "the consumer has printed it"
    assert '"duplicate":true' in curl_again
    assert curl.count("204 No Content") == curl_again.count("204 No Content") == 1
    assert python.splitlines() == ["two coffees", '{"drink":"two coffees"}']
    assert python_again.splitlines() == ['{"drink":"two coffees"}'], (
        "one new order, and no waiting for others"
    )
    for text in (spark, spark_again):
        row = json.loads(next(line for line in text.splitlines() if line.startswith("{")))
        assert (row["aggregate_id"], row["sequence_number"], row["state"]) == ("o-1", 1, {"total": 12})
    assert "a duplicate" in spark_again, "the event's id makes the command safe to repeat"
