"""Fill docs/contract.md: what each clause means, and the tests that name it.

The wording is in docs/contract/clauses.toml. A test names its clauses with `@pytest.mark.clause("A3", "W1")`,
on a function or a class, in a `pytestmark`, or in `pytest.param(..., marks=...)`. The tests are read as
syntax trees and not imported, so the page needs nothing installed and is the same on every machine.

    python scripts/contract.py            write the page
    python scripts/contract.py --check    fail if the page is not what would be written
"""

import argparse
import ast
import sys
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeGuard

ROOT = Path(__file__).resolve().parent.parent
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
        expected = [f"{section.letter}{number}" for number in range(1, len(section.clauses) + 1)]
        if list(section.clauses) != expected:
            raise ContractError(
                f"section {section.letter}: clauses must be {expected[0]} to {expected[-1]} in order"
            )
    return sections


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
        elif isinstance(node, ast.Assign):
            # `TestBroker = pytest.mark.clause("T4")(BrokerMachine.TestCase)`: Hypothesis' state machines.
            name, marks = next(iter(assigned_names(node)), ""), [node.value]
        if name.startswith(("test", "Test")):
            yield from ((prefix + name, mark) for mark in [*shared, *marks])


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


def render(sections: Sequence[Section], named: Sequence[NamedBy]) -> str:
    """The page; raises ContractError for a test that names a clause which does not exist."""
    known = {clause for section in sections for clause in section.clauses}
    for entry in named:
        if entry.clause not in known:
            raise ContractError(f"{entry.path}::{entry.test} names {entry.clause!r}, which is no clause")
    tests: dict[str, list[NamedBy]] = {clause: [] for clause in known}
    for entry in named:
        tests[entry.clause].append(entry)

    covered = sum(1 for clause in known if tests[clause])
    lines = [
        "# The contract",
        "",
        "<!-- Made by `make contract` from docs/contract/clauses.toml and the tests; do not edit. -->",
        "",
        "What DriftQ promises, clause by clause, and the tests that prove it. A test names its clauses with",
        '`@pytest.mark.clause("A3")`. A clause not yet covered belongs to a part that is still to come,',
        "or waits for its test.",
        "",
        f"{covered} of {len(known)} clauses are named by a test.",
        "",
        "| Section | Clauses | Named by a test |",
        "|---|---|---|",
    ]
    for section in sections:
        count = sum(1 for clause in section.clauses if tests[clause])
        lines.append(f"| {section.letter} · {section.title} | {len(section.clauses)} | {count} |")
    for section in sections:
        lines += ["", f"## {section.letter} · {section.title}"]
        for clause, meaning in section.clauses.items():
            lines += ["", f"### {clause}", "", meaning, ""]
            lines += [f"- `{entry.path}::{entry.test}`" for entry in tests[clause]] or ["*not yet covered*"]
    return "\n".join(lines) + "\n"


def main(arguments: Sequence[str] | None = None, root: Path = ROOT) -> int:
    parser = argparse.ArgumentParser(description="Fill docs/contract.md.")
    parser.add_argument(
        "--check", action="store_true", help="fail if the page is not up to date; write nothing"
    )
    options = parser.parse_args(arguments)
    try:
        sections = read_wording((root / WORDING).read_text(encoding="utf-8"))
        wanted = render(sections, collect(root))
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
