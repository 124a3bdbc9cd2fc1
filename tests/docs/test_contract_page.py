"""The contract page is made from the tests as they are written."""

from pathlib import Path

import pytest

from scripts import contract

WORDING = """
[Q]
title = "Questions"
[Q.clauses]
Q1 = "First."
Q2 = "Second."
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A small project with a wording and one test file to be filled."""
    (tmp_path / contract.WORDING).parent.mkdir(parents=True)
    (tmp_path / contract.WORDING).write_text(WORDING)
    (tmp_path / contract.TESTS / "unit").mkdir(parents=True)
    return tmp_path


def write_test(project: Path, text: str, name: str = "test_it.py") -> None:
    (project / contract.TESTS / "unit" / name).write_text("import pytest\n" + text)


def named(project: Path) -> list[tuple[str, str]]:
    return [(entry.test, entry.clause) for entry in contract.collect(project)]


def test_a_decorator_names_several_clauses(project: Path) -> None:
    write_test(project, '@pytest.mark.clause("Q1", "Q2")\nasync def test_one(): ...\ndef test_two(): ...\n')
    assert named(project) == [("test_one", "Q1"), ("test_one", "Q2")]


def test_a_module_mark_holds_for_every_test_in_it(project: Path) -> None:
    write_test(
        project,
        'pytestmark = [pytest.mark.clause("Q1")]\n'
        "def test_one(): ...\nclass TestMore:\n def test_two(self): ...\n",
    )
    assert named(project) == [("TestMore::test_two", "Q1"), ("test_one", "Q1")]


def test_a_class_mark_holds_for_its_methods_only(project: Path) -> None:
    write_test(
        project, '@pytest.mark.clause("Q2")\nclass TestIt:\n def test_in(self): ...\ndef test_out(): ...\n'
    )
    assert named(project) == [("TestIt::test_in", "Q2")]


def test_a_parameter_can_carry_a_mark(project: Path) -> None:
    write_test(
        project,
        '@pytest.mark.parametrize("n", [pytest.param(1, marks=pytest.mark.clause("Q1")), 2])\n'
        "def test_n(n): ...\n",
    )
    assert named(project) == [("test_n", "Q1")]


def test_a_state_machine_is_marked_where_it_becomes_a_test(project: Path) -> None:
    write_test(project, 'class Machine: ...\nTestMachine = pytest.mark.clause("Q1")(Machine.TestCase)\n')
    assert named(project) == [("TestMachine", "Q1")]


def test_a_mark_on_something_else_than_a_test_counts_for_nothing(project: Path) -> None:
    write_test(project, '@pytest.mark.clause("Q1")\ndef helper(): ...\n')
    assert named(project) == []


def test_an_unknown_clause_is_refused(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_test(project, '@pytest.mark.clause("Q3")\ndef test_one(): ...\n')
    assert contract.main([], root=project) == 1
    assert "tests/unit/test_it.py::test_one names 'Q3'" in capsys.readouterr().err


def test_a_missing_number_in_the_wording_is_refused(project: Path) -> None:
    with pytest.raises(contract.ContractError, match="section Q"):
        contract.read_wording('[Q]\ntitle = "Questions"\n[Q.clauses]\nA1 = "x"\nA3 = "y"\n')


def test_check_fails_until_the_page_is_written_again(project: Path) -> None:
    assert contract.main(["--check"], root=project) == 1
    assert contract.main([], root=project) == 0
    assert contract.main(["--check"], root=project) == 0
    write_test(project, '@pytest.mark.clause("Q1")\ndef test_one(): ...\n')
    assert contract.main(["--check"], root=project) == 1
    assert contract.main([], root=project) == 0
    page = (project / contract.PAGE).read_text()
    assert "First.\n\n- `tests/unit/test_it.py::test_one`\n" in page
    assert "Second.\n\n*not yet covered*\n" in page


def test_the_real_wording_has_every_clause() -> None:
    sections = contract.read_wording((contract.ROOT / contract.WORDING).read_text(encoding="utf-8"))
    counts = " ".join(f"{section.letter}{len(section.clauses)}" for section in sections)
    assert counts == "T7 P7 G6 A9 W9 E5 R7 I10 D8 H6 J13 S9 U6 K9 V4 Z6 X8 N3 Y8 O6"
