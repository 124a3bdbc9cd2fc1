"""The page on sizing: whether its projections follow from its measurements."""

import re
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "explanation" / "scale.md"
SYSTEMS = ("Server", "PostgreSQL", "Kafka", "Spark")
A_DAY = 1_000_000_000
PEAK = 3


@pytest.mark.clause("O5")
def test_every_projection_follows_from_the_measured_costs() -> None:
    text = PAGE.read_text()
    rows = _rows(text)
    stages = {name: cells for name, cells in rows.items() if len(cells) == 5 and name != "Stage"}
    whole = stages.pop("all of them")
    costs = [sum(int(cells[column]) for cells in stages.values()) for column in range(len(SYSTEMS))]
    assert len(stages) == 4
    assert [int(cell) for cell in whole[:4]] == costs
    average = A_DAY / 86_400
    assert f"{average:,.0f} events a second on average" in text
    assert f"{average * PEAK:,.0f} a second" in text
    for system, cost in zip(SYSTEMS, costs, strict=True):
        assert rows[system][:2] == [
            f"{average * cost / 1e6:.1f}",
            f"{average * PEAK * cost / 1e6:.1f}",
        ]


@pytest.mark.clause("O5")
def test_a_day_on_disk_is_a_thousand_million_times_an_event() -> None:
    leaves, a_day = (
        [int(number) for number in re.findall(rf"(\d+) {unit}\b", part)]
        for unit, part in (
            ("bytes", _between("What an event leaves", "## 10⁹")),
            ("GB", _between("Disk for", "## The first")),
        )
    )
    assert leaves == a_day  # 10⁹ times as many bytes are as many gigabytes.


def _between(start: str, end: str) -> str:
    text = PAGE.read_text()
    return text[text.index(start) : text.index(end, text.index(start))]


def _rows(text: str) -> dict[str, list[str]]:
    found = {}
    for line in text.splitlines():
        if line.startswith("| ") and "---" not in line:
            name, *cells = [cell.strip() for cell in line.strip("|").split("|")]
            found[name.strip()] = cells
    return found
