"""Fill docs/contract.md: what each clause means, the tests that name it, and what is not covered yet.

The wording is in docs/contract/clauses.toml. A test names its clauses with `@pytest.mark.clause("A3", "W1")`,
on a function or a class, in a `pytestmark`, or in `pytest.param(..., marks=...)`. The tests are read as
syntax trees and not imported, so the page needs nothing installed and is the same on every machine.

A clause that promises several things may have parts, V2a, V2b and so on. It is covered when each part is. A
test that names a part names its clause too. A clause that names another system is covered only by tests that
start that system: scripts/contract_systems.py has the list.

    python scripts/contract.py            write the page
    python scripts/contract.py --check    fail if the page is not what would be written
"""

import argparse
import ast
import re
import sys
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeGuard

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from scripts.contract_systems import named_systems, started_systems  # noqa: E402

WORDING = Path("docs/contract/clauses.toml")
PAGE = Path("docs/contract.md")
TESTS = Path("tests")


@dataclass(frozen=True, order=True)
class NamedBy:
    """One test that names one clause."""

    path: str
    test: str
    clause: str


@dataclass(frozen=True)
class Section:
    letter: str
    title: str
    clauses: Mapping[str, str]


class ContractError(Exception):
    """The wording or a marker cannot be used; the text says where."""


def read_wording(text: str) -> list[Section]:
    """The sections in the order of the file; raises ContractError where numbers are missing or misplaced."""
    sections = [
        Section(letter, table["title"], table["clauses"]) for letter, table in tomllib.loads(text).items()
    ]
    for section in sections:
        if list(section.clauses) != list(_in_order(section)):
            raise ContractError(
                f"section {section.letter}: clauses and their parts must be numbered in order"
            )
    return sections


def _in_order(section: Section) -> Iterator[str]:
    """The names that clauses and parts must have, given how many there are of each."""
    whole = [clause for clause in section.clauses if not is_part(clause)]
    for number, clause in enumerate(whole, start=1):
        yield f"{section.letter}{number}"
        for at, _ in enumerate(parts_of(clause, section.clauses)):
            yield f"{section.letter}{number}{chr(ord('a') + at)}"


def is_part(clause: str) -> bool:
    return clause[-1:].isalpha()


def parts_of(clause: str, clauses: Mapping[str, str]) -> list[str]:
    return [part for part in clauses if re.fullmatch(re.escape(clause) + "[a-z]", part)]


def is_clause_call(node: ast.AST) -> TypeGuard[ast.Call]:
    if not isinstance(node, ast.Call):
        return False
    called = node.func
    return (isinstance(called, ast.Attribute) and called.attr == "clause") or (
        isinstance(called, ast.Name) and called.id == "clause"
    )


def clause_names(node: ast.AST, where: str) -> Iterator[str]:
    """The names in every `clause(...)` call at or below a node."""
    for call in filter(is_clause_call, ast.walk(node)):
        for argument in call.args:
            if not (isinstance(argument, ast.Constant) and isinstance(argument.value, str)):
                raise ContractError(f"{where}:{call.lineno}: clause names must be written as plain strings")
            yield argument.value


def assigned_names(node: ast.stmt) -> list[str]:
    targets: list[ast.expr] = []
    if isinstance(node, ast.Assign):
        targets = node.targets
    elif isinstance(node, ast.AnnAssign):
        targets = [node.target]
    return [target.id for target in targets if isinstance(target, ast.Name)]


def marks_in(
    body: Sequence[ast.stmt], above: Sequence[ast.AST], prefix: str
) -> Iterator[tuple[str, ast.AST]]:
    """Every test of a module or class body, paired with each piece of syntax that may mark it."""
    shared = [*above, *(node for node in body if "pytestmark" in assigned_names(node))]
    for node in body:
        marks: list[ast.AST] = []
        name = ""
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            name, marks = node.name, [*node.decorator_list]
        elif isinstance(node, ast.ClassDef) and node.name.startswith("Test"):
            yield from marks_in(node.body, [*shared, *node.decorator_list], f"{prefix}{node.name}::")
            if node.bases and not any(map(is_test, node.body)):
                # `class TestMine(SomeSuite)`: its tests are inherited, and its marks are theirs.
                name, marks = node.name, [*node.decorator_list]
        elif isinstance(node, ast.Assign):
            # `TestBroker = pytest.mark.clause("T4")(BrokerMachine.TestCase)`: Hypothesis' state machines.
            name, marks = next(iter(assigned_names(node)), ""), [node.value]
        if name.startswith(("test", "Test")):
            yield from ((prefix + name, mark) for mark in [*shared, *marks])


def is_test(node: ast.stmt) -> bool:
    return isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test")


def named_by_file(path: Path, root: Path) -> Iterator[NamedBy]:
    where = path.relative_to(root).as_posix()
    tree = ast.parse(path.read_text(encoding="utf-8"), filename=where)
    for test, mark in marks_in(tree.body, [], ""):
        for clause in clause_names(mark, where):
            yield NamedBy(where, test, clause)


def collect(root: Path) -> list[NamedBy]:
    """Every naming of a clause under tests/, sorted and without repeats."""
    files = sorted([*(root / TESTS).rglob("test_*.py"), *(root / TESTS).rglob("*_test.py")])
    return sorted({named for path in files for named in named_by_file(path, root)})


@dataclass(frozen=True)
class Coverage:
    """What the tests say about one clause."""

    tests: Sequence[NamedBy]
    missing_systems: Sequence[str]
    """Systems that the clause names and that none of its tests starts."""
    open_parts: Sequence[str]

    @property
    def is_covered(self) -> bool:
        return bool(self.tests) and not self.missing_systems and not self.open_parts


def coverage(sections: Sequence[Section], named: Sequence[NamedBy], root: Path = ROOT) -> dict[str, Coverage]:
    """The coverage of every clause; ContractError for a mark that names no clause, or a part alone."""
    wording = {clause: text for section in sections for clause, text in section.clauses.items()}
    tests: dict[str, list[NamedBy]] = {clause: [] for clause in wording}
    for entry in named:
        if entry.clause not in wording:
            raise ContractError(f"{entry.path}::{entry.test} names {entry.clause!r}, which is no clause")
        tests[entry.clause].append(entry)
    for entry in named:
        whole = entry.clause.rstrip("abcdefghijklmnopqrstuvwxyz")
        if NamedBy(entry.path, entry.test, whole) not in tests[whole]:
            raise ContractError(f"{entry.path}::{entry.test} names {entry.clause} without {whole}")
    found: dict[str, Coverage] = {}
    for clause in sorted(wording, key=is_part, reverse=True):  # Parts first.
        parts = parts_of(clause, wording)
        open_parts = [part for part in parts if not found[part].is_covered]
        started = {
            system for entry in tests[clause] for system in started_systems(root / entry.path, root / TESTS)
        }
        missing = (
            [] if parts else [one for one in named_systems(clause, wording[clause]) if one not in started]
        )
        found[clause] = Coverage(tests[clause], missing, open_parts)
    return found


INTRO = """\
# The contract

<!-- Made by `make contract` from docs/contract/clauses.toml and the tests; do not edit. -->

What DriftQ promises, clause by clause, and the tests that prove it. A test names its clauses with
`@pytest.mark.clause("A3")`. A clause that promises several things has parts, such as V2a, and is covered when
each part is. A clause that names another system, such as Kafka, is covered only by a test that runs against
that system. A clause that is not covered is planned, or waits for its test."""


def render(sections: Sequence[Section], found: Mapping[str, Coverage]) -> str:
    whole = [clause for clause in found if not is_part(clause)]
    covered = sum(found[clause].is_covered for clause in whole)
    lines = [
        *INTRO.splitlines(),
        "",
        f"{covered} of {len(whole)} clauses are covered.",
        "",
        "| Section | Clauses | Covered | Not covered yet |",
        "|---|---|---|---|",
    ]
    for section in sections:
        own = [clause for clause in section.clauses if not is_part(clause)]
        missing = [clause for clause in own if not found[clause].is_covered]
        links = ", ".join(f"[{clause}](#{clause.lower()})" for clause in missing)
        lines.append(
            f"| {section.letter} · {section.title} | {len(own)} | {len(own) - len(missing)} | {links} |"
        )
    for section in sections:
        lines += ["", f"## {section.letter} · {section.title}"]
        for clause, meaning in section.clauses.items():
            lines += ["", f"{'####' if is_part(clause) else '###'} {clause}", "", meaning, ""]
            lines += _proof(found[clause])
    return "\n".join(lines) + "\n"


def _proof(found: Coverage) -> list[str]:
    lines = [f"- `{entry.path}::{entry.test}`" for entry in found.tests]
    if not lines:
        return ["*not yet covered*"]
    if found.missing_systems:
        lines += ["", f"*not yet covered: no test runs against {', '.join(found.missing_systems)}*"]
    if found.open_parts:
        lines += ["", f"*not yet covered: {', '.join(found.open_parts)}*"]
    return lines


def main(arguments: Sequence[str] | None = None, root: Path = ROOT) -> int:
    parser = argparse.ArgumentParser(description="Fill docs/contract.md.")
    parser.add_argument(
        "--check", action="store_true", help="fail if the page is not up to date; write nothing"
    )
    options = parser.parse_args(arguments)
    try:
        sections = read_wording((root / WORDING).read_text(encoding="utf-8"))
        wanted = render(sections, coverage(sections, collect(root), root))
    except ContractError as error:
        print(f"contract: {error}", file=sys.stderr)
        return 1
    page = root / PAGE
    current = page.read_text(encoding="utf-8") if page.exists() else ""
    if current == wanted:
        print(f"{PAGE} is up to date")
        return 0
    if options.check:
        print(f"{PAGE} is not up to date: run `make contract`", file=sys.stderr)
        return 1
    page.write_text(wanted, encoding="utf-8")
    print(f"{PAGE} written")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
