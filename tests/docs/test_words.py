"""The check for names: one class name for one module, and no name that was retired."""

from pathlib import Path

import pytest

from scripts import words


@pytest.fixture
def project(tmp_path: Path) -> Path:
    for folder in ("src/driftq/core", "tests", "scripts"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / words.RETIRED).write_text(
        "# A comment.\n\nParcel -> DeliveryBatch\nbury -> dead_letter\nmodule answers -> responses\n"
    )
    return tmp_path


def write(project: Path, name: str, text: str) -> None:
    (project / name).write_text(text)


def test_a_class_name_in_two_modules_of_src_is_found(project: Path) -> None:
    write(project, "src/driftq/one.py", "class Grant: ...\n")
    write(project, "src/driftq/core/two.py", "x = 1\n\nclass Grant: ...\n")
    assert words.problems(project) == [
        "class Grant is defined 2 times: src/driftq/core/two.py:3, src/driftq/one.py:1"
    ]


def test_a_class_of_the_tests_may_have_the_name_of_one_in_src(project: Path) -> None:
    write(project, "src/driftq/one.py", "class Grant: ...\n")
    write(project, "tests/one.py", "class Grant: ...\n")
    assert words.problems(project) == []


def test_the_allow_list_lets_a_name_through(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(words.ALLOWED_TWICE, "Grant", "a reason")
    for name in ("src/driftq/one.py", "src/driftq/two.py"):
        write(project, name, "class Grant: ...\n")
    assert words.problems(project) == []


def test_a_retired_class_or_method_is_found_in_src_and_tests(project: Path) -> None:
    write(project, "src/driftq/one.py", "class Parcel: ...\n")
    write(project, "tests/two.py", "class Log:\n    async def bury(self): ...\n")
    assert words.problems(project) == [
        "src/driftq/one.py:1: the class name Parcel is retired; use DeliveryBatch",
        "tests/two.py:2: the function name bury is retired; use dead_letter",
    ]


def test_a_name_retired_for_modules_is_free_for_functions(project: Path) -> None:
    write(project, "src/driftq/one.py", "def answers(): ...\n")
    assert words.problems(project) == []
    write(project, "src/driftq/answers.py", "")
    assert words.problems(project) == [
        "src/driftq/answers.py:1: the module name answers is retired; use responses"
    ]


def test_longer_names_variables_and_prose_are_not_compared(project: Path) -> None:
    write(project, "src/driftq/one.py", '"""To bury a Parcel."""\nbury = 1\ndef bury_all(Parcel): ...\n')
    assert words.problems(project) == []


def test_the_list_is_sound() -> None:
    """Every line has both names, and no new name is retired itself."""
    retired = words.read_retired((words.ROOT / words.RETIRED).read_text(encoding="utf-8"))
    assert len(retired) > 50
    assert [new for new in retired.values() if new in retired] == []
