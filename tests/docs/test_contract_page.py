"""The contract page is made from the tests as they are written."""

import re
from functools import cache
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


def test_a_class_whose_tests_are_inherited_is_named_itself(project: Path) -> None:
    write_test(
        project,
        '@pytest.mark.clause("Q1")\nclass TestMine(Suite):\n def sink(self): ...\n'
        '@pytest.mark.clause("Q2")\nclass TestMore(Suite):\n def test_one(self): ...\n',
    )
    assert named(project) == [("TestMine", "Q1"), ("TestMore::test_one", "Q2")]


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


SPLIT = WORDING + 'Q2a = "Half."\nQ2b = "The other half, on Kafka."\n'


def covered(project: Path) -> dict[str, bool]:
    sections = contract.read_wording((project / contract.WORDING).read_text())
    found = contract.coverage(sections, contract.collect(project), project)
    return {clause: one.is_covered for clause, one in found.items()}


def test_a_clause_is_covered_when_each_of_its_parts_is(project: Path) -> None:
    (project / contract.WORDING).write_text(SPLIT.replace(", on Kafka", ""))
    write_test(project, '@pytest.mark.clause("Q2", "Q2a")\ndef test_one(): ...\n')
    assert covered(project) == {"Q1": False, "Q2": False, "Q2a": True, "Q2b": False}
    write_test(project, '@pytest.mark.clause("Q2", "Q2b")\ndef test_two(): ...\n', name="test_more.py")
    assert covered(project) == {"Q1": False, "Q2": True, "Q2a": True, "Q2b": True}


def test_a_part_is_named_together_with_its_clause(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (project / contract.WORDING).write_text(SPLIT)
    write_test(project, '@pytest.mark.clause("Q2a")\ndef test_one(): ...\n')
    assert contract.main([], root=project) == 1
    assert "test_one names Q2a without Q2" in capsys.readouterr().err


def test_parts_follow_their_clause_in_order() -> None:
    with pytest.raises(contract.ContractError, match="section Q"):
        contract.read_wording(WORDING + 'Q2b = "No a before it."\n')


def test_a_clause_that_names_a_system_needs_a_test_that_starts_it(project: Path) -> None:
    (project / contract.WORDING).write_text(SPLIT)
    marked = '@pytest.mark.clause("Q2", "Q2b")\ndef test_one(broker): ...\n'
    write_test(project, marked)
    assert not covered(project)["Q2b"]
    contract.main([], root=project)
    assert "*not yet covered: no test runs against Kafka*" in (project / contract.PAGE).read_text()
    kafka = project / contract.TESTS / "unit/kafka"
    kafka.mkdir()
    (kafka / "conftest.py").write_text("from tests.services_kafka import broker\n")
    (kafka / "test_kafka.py").write_text("import pytest\n" + marked)
    assert covered(project)["Q2b"]


@cache
def really_covered() -> dict[str, bool]:
    return covered(contract.ROOT)


@pytest.mark.parametrize(
    "part",
    [
        "V2a",
        "V2b",
        "V2c",
        "V3a",
        "V3b",
        "V3c",
        "V3d",
        "K5a",
        "K5b",
        "K5c",
        "K5d",
        "J12a",
        "J12d",
        "Y6a",
        "Y6b",
    ],
)
def test_the_parts_that_the_code_keeps_are_covered(part: str) -> None:
    assert really_covered()[part]


PLANNED = re.compile(r"\bplanned\b|\bnot yet (?:available|supported)\b", re.IGNORECASE)
PAGES = [
    page
    for page in sorted([*contract.ROOT.glob("*.md"), *(contract.ROOT / "docs").rglob("*.md")])
    if page.name not in ("CHANGELOG.md", "contract.md") and page.parent.name not in ("adr", "reference")
]


@pytest.mark.clause("O5")
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(contract.ROOT).as_posix())
def test_what_a_page_calls_planned_is_a_clause_that_no_test_covers(page: Path) -> None:
    for line in page.read_text(encoding="utf-8").splitlines():
        if PLANNED.search(line):
            clauses = re.findall(r"contract\.md#([a-z]\d+[a-z]?)", line)
            assert clauses, f"name the clause: {line}"
            assert [one for one in clauses if really_covered()[one[0].upper() + one[1:]]] == [], line


def test_the_real_wording_has_every_clause() -> None:
    sections = contract.read_wording((contract.ROOT / contract.WORDING).read_text(encoding="utf-8"))
    counts = " ".join(
        f"{section.letter}{sum(not contract.is_part(clause) for clause in section.clauses)}"
        for section in sections
    )
    assert counts == "T7 P9 G6 A9 W9 E5 R7 I11 D8 H6 J23 S11 U8 K11 V10 Z10 X9 N3 Y8 O6"
