"""The documentation's figures: what a run replaces, and what table and charts make of them."""

import pytest

from bench.harness.figure import RoundShown
from bench.page.charts import page
from bench.page.markdown import BEGIN, END, filled, tables
from bench.page.results import Result, by_benchmark, runs, take_over


def result(name: str, benchmark: str, **more: object) -> Result:
    return Result(name=name, value=10.0, unit="/s", benchmark=benchmark, **more)  # type: ignore[arg-type]


BESIDE = result(
    "single <produce>",
    "singles",
    ratio_to="Redis",
    ratio=0.5,
    ratio_aim="≥ 0.75×",
    held=False,
    cpu_us=25.0,
    steal=0.01,
    rounds=5,
    machine="a machine",
    revision="abc",
    each_round=(RoundShown(10.0, 20.0, 0.0, kept=True), RoundShown(9.0, 20.0, 0.3, kept=False)),
)


def test_a_run_replaces_all_figures_of_its_benchmarks_in_their_place() -> None:
    before = [result("a", "singles"), result("gone", "singles"), result("b", "events")]
    taken = take_over(before, [result("new", "fresh"), result("a", "singles", rounds=5)])
    assert [(one.benchmark, one.name, one.rounds) for one in taken] == [
        ("singles", "a", 5),
        ("events", "b", 1),
        ("fresh", "new", 1),
    ]
    assert list(by_benchmark(taken)) == ["singles", "events", "fresh"]


def test_each_machine_and_revision_is_named_with_its_benchmarks() -> None:
    found = runs([BESIDE, result("b", "events"), result("c", "claims")])
    assert found == [("a machine", "abc", ["singles"]), ("", "", ["events", "claims"])]


def test_the_tables_stand_between_the_marks_and_nothing_else_changes() -> None:
    text = filled(f"before\n{BEGIN}\nold\n{END}\nafter\n", [BESIDE])
    assert text.startswith(f"before\n{BEGIN}\n")
    assert text.endswith(f"{END}\nafter\n")
    assert "old" not in text
    assert "| 10/s | Redis | 0.50× | ≥ 0.75× (short) | 25.0 | 1.0% | 5 |" in text
    assert filled(text, [BESIDE]) == text


def test_a_page_without_marks_is_refused() -> None:
    with pytest.raises(ValueError, match="figures: begin"):
        filled("no marks", [BESIDE])


def test_figures_without_steal_stand_apart() -> None:
    text = tables([BESIDE, result("older", "core")])
    assert text.index("### singles") < text.index("without steal") < text.index("| `core` | older |")


def test_a_chart_has_bar_target_and_every_round() -> None:
    text = page([BESIDE, result("alone", "core")])
    assert "single &lt;produce&gt;" in text
    assert text.count('class="kept"') == text.count('class="discarded"') == 1
    assert "target ≥ 0.75×" in text
    assert "<td>core</td><td>alone</td>" in text
    assert "src=" not in text  # It needs nothing beside it.
    assert "href=" not in text
