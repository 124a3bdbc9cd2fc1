"""The parts of the test matrix: each can be run, and the small ones take turns."""

from __future__ import annotations

import tomllib
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest

from driftq.pipeline.spark.connectors import CONNECTORS
from scripts import matrix
from scripts.matrix import PARTS, Part, chosen, in_turn, run_parts
from tests.support.thorough import VARIABLE

ROOT = Path(__file__).resolve().parents[2]
MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")


def test_every_small_part_has_its_turn_before_any_has_its_second() -> None:
    small = [part for part in PARTS if part.small]
    assert small
    for first in (0, 1, 17):
        turns = Counter(in_turn(PARTS, commits) for commits in range(first, first + len(small)))
        assert turns == Counter(small)
    with_large = (Part("cluster", ("tests/x",)), *PARTS)
    assert {in_turn(with_large, commits) for commits in range(20)} == set(small)


def test_every_part_has_tests_and_an_environment_that_is_made() -> None:
    assert len({part.name for part in PARTS}) == len(PARTS)
    for part in PARTS:
        assert part.tests
        assert all((ROOT / one).is_file() or list((ROOT / one).glob("test_*.py")) for one in part.tests)
        kind = part.environment.rpartition("-")
        rule = f"{kind[0]}-%/.driftq-setup:" if kind[0] else "$(STAMP):"
        assert rule in MAKEFILE, part.environment


def test_the_versions_of_spark_are_the_same_in_the_matrix_the_lock_and_the_contract() -> None:
    versions = [part.name.removeprefix("spark-") for part in PARTS if part.name.startswith("spark-")]
    assert f"SPARKS := {' '.join(versions)}\n" in MAKEFILE
    for version in versions:
        lock = (ROOT / f"requirements/spark/pyspark-{version}.txt").read_text(encoding="utf-8")
        assert f"pyspark=={version}." in lock
    clauses = tomllib.loads((ROOT / "docs/contract/clauses.toml").read_text(encoding="utf-8"))
    assert f"pyspark {', '.join(versions[:-1])} and {versions[-1]}" in clauses["Z"]["clauses"]["Z7"]


def test_kafka_is_read_by_the_release_of_spark_that_its_connector_belongs_to() -> None:
    [part] = [part for part in PARTS if part.name.startswith("kafka-")]
    minor, release = part.name.removeprefix("kafka-"), part.environment.removeprefix(".venv-spark-")
    assert (CONNECTORS[minor].source, CONNECTORS[minor].tokens) == (release, release)
    assert f"SPARK_OF_CONNECTOR := {release}\n" in MAKEFILE
    lock = (ROOT / f"requirements/spark/pyspark-{release}.txt").read_text(encoding="utf-8")
    assert f"pyspark=={release} " in lock


def test_a_part_is_named_or_all_run_and_a_failure_ends_none_of_the_others(
    capsys: pytest.CaptureFixture[str],
) -> None:
    ran: list[str] = []

    def run(command: Sequence[str]) -> int:
        ran.append(" ".join(command))
        return int(command[0] == ".venv-spark-4.1/bin/python")

    assert matrix.main(["spark-4.0", "spark-4.1", "spark-4.2", "--options", "-q -x"], run) == 1
    assert ran == [
        "make .venv-spark-4.0/.driftq-setup",
        ".venv-spark-4.0/bin/python -m pytest tests/spark_versions -q -x",
        "make .venv-spark-4.1/.driftq-setup",
        ".venv-spark-4.1/bin/python -m pytest tests/spark_versions -q -x",
        "make .venv-spark-4.2/.driftq-setup",
        ".venv-spark-4.2/bin/python -m pytest tests/spark_versions -q -x",
    ]
    assert "failed: spark-4.1" in capsys.readouterr().out
    assert chosen([], PARTS, 5) == list(PARTS)
    assert chosen(["turn"], PARTS, 5) == [in_turn(PARTS, 5)]
    with pytest.raises(ValueError, match=r"no part spark-3\.5; there are spark-4\.0"):
        chosen(["spark-3.5"], PARTS, 5)
    assert run_parts(PARTS[:1], lambda _: 1) == ["spark-4.0"]


def test_a_thorough_part_says_so_to_its_tests() -> None:
    ran: list[str] = []

    def run(command: Sequence[str]) -> int:
        ran.append(" ".join(command))
        return 0

    assert run_parts([Part("seeds", ("tests/x",), thorough=True)], run) == []
    assert ran[1] == f"env {VARIABLE}=1 .venv/bin/python -m pytest tests/x"
