"""The JSON of a run: what other programs read."""

import json
from pathlib import Path

import pytest

from bench.harness.figure import Figure, RoundShown, at_least, below, exactly
from bench.report import told, told_bound, with_full_names, write_json

PROMISED = {"name", "value", "unit", "ratio_to", "ratio", "cpu_us", "steal", "rounds"}
ABOUT = {"machine": "2 × processor", "revision": "abc", "at": "2026-11-19"}


def test_one_object_a_figure_with_the_promised_fields(tmp_path: Path) -> None:
    figure = Figure(
        "single produce",
        100.0,
        "/s",
        ratio_to="Redis",
        ratio=0.9,
        ratio_aim=at_least(0.75),
        cpu_us=35.0,
        steal=0.01,
        rounds=1,
        each_round=(RoundShown(100.0, 111.0, 0.01, kept=True),),
        benchmark="singles",
    )
    file = tmp_path / "figures.json"
    write_json(file, [figure], ABOUT)
    (one,) = json.loads(file.read_bytes())
    assert set(one) >= PROMISED
    assert {name: one[name] for name in PROMISED} == {
        "name": "single produce",
        "value": 100.0,
        "unit": "/s",
        "ratio_to": "Redis",
        "ratio": 0.9,
        "cpu_us": 35.0,
        "steal": 0.01,
        "rounds": 1,
    }
    assert (one["ratio_aim"], one["held"], one["machine"]) == ("≥ 0.75×", True, "2 × processor")
    assert one["each_round"] == [{"value": 100.0, "beside": 111.0, "steal": 0.01, "kept": True}]


def test_what_a_figure_does_not_have_is_null(tmp_path: Path) -> None:
    file = tmp_path / "figures.json"
    write_json(file, [Figure("memory", 31.0, "B")], ABOUT)
    (one,) = json.loads(file.read_bytes())
    assert one["ratio_to"] is one["ratio"] is one["cpu_us"] is one["steal"] is one["held"] is None


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (24_802.4, "/s", "24,802/s"),
        (250_000, "messages/s", "250,000 messages/s"),
        (1.234, "ms", "1.23 ms"),
        (0.75, "×", "0.75×"),
        (0.002, "%", "0.2%"),
        (31, "B", "31 B"),
    ],
)
def test_a_value_is_told_with_the_digits_of_its_unit(value: float, unit: str, text: str) -> None:
    assert told(value, unit) == text


def test_a_bound_is_told_and_judged() -> None:
    assert told_bound(below(0.03), "%") == "< 3%"
    assert told_bound(None, "ms") == ""
    assert [bound.holds(5) for bound in (at_least(5), below(5), exactly(5))] == [True, False, True]
    assert Figure("two bounds", 5, aim=at_least(4), ratio=2, ratio_aim=at_least(3)).held is False


def test_a_name_that_goes_on_from_the_last_is_completed() -> None:
    names = [
        one.name for one in with_full_names([Figure("append", 1), Figure("… p50", 2), Figure("… p99", 3)])
    ]
    assert names == ["append", "append: p50", "append: p99"]
