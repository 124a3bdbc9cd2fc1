"""The suites themselves: no test is lost between the processes that share them."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests import conftest
from tests.support.sharing import ON_SPARK, ONE_BY_ONE, OWN_DRIVERS, SharedByModule, is_on_spark

ROOT = Path(__file__).parents[2]


def scope(nodeid: str) -> str:
    return SharedByModule._split_scope(cast("Any", None), nodeid)


def files(place: Path) -> list[Path]:
    """The tests in a folder, or the one file."""
    return sorted(place.glob("test_*.py")) if place.is_dir() else [place]


def test_one_process_has_the_spark_session_one_the_drivers_and_the_rest_goes_by_module() -> None:
    on_spark = [f"{place}::test_one[a::b]" for place in ON_SPARK]
    assert {scope(nodeid) for nodeid in on_spark} == {"spark", "drivers"}
    assert all((ROOT / place).exists() for place in ON_SPARK)
    assert scope("tests/spark/test_source.py::test_one") == "spark"
    assert scope("tests/acceptance/pipeline/test_chain.py::test_one") == "drivers"
    assert not any("spark: " in file.read_text() for file in files(ROOT / OWN_DRIVERS))
    assert scope("tests/crash/test_jobs.py::test_one[a::b]") == "tests/crash/test_jobs.py"
    assert not is_on_spark("tests/acceptance/worker/test_killed.py::test_one")


def test_modules_whose_tests_go_one_by_one_share_nothing() -> None:
    for place in ONE_BY_ONE:
        assert scope(f"{place}::test_one[a::b]") == f"{place}::test_one[a::b]"
        assert "scope=" not in (ROOT / place).read_text()


@given(st.none())
def test_no_generated_example_has_to_be_quick(example: None) -> None:
    """Not here, and not where a test has settings of its own."""
    assert settings.default is not None
    assert settings.default.deadline is None
    assert HealthCheck.too_slow in settings.default.suppress_health_check
    assert settings().deadline is None
    assert example is None


def test_two_tests_with_one_id_are_refused() -> None:
    """A process that hands out tests by their ids would run one of them."""
    same = [SimpleNamespace(name="test_one", nodeid="tests/a.py::test_one") for _ in range(2)]
    with pytest.raises(pytest.UsageError, match=r"same id: tests/a\.py::test_one"):
        conftest.tell_apart(cast("Any", same))
