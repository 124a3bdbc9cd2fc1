"""One name for one thing: fail on a class name that two modules of src define, and on a retired name.

    python scripts/words.py [ROOT]

Names are read from syntax trees: classes, functions and methods of src and tests, and the names of modules
and folders. Prose, variables and strings are not read. scripts/retired_names.txt has the retired names.
"""

import ast
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
RETIRED = Path("scripts/retired_names.txt")
TREES = ("src", "tests")

ALLOWED_TWICE = {
    "Outbox": "what users run as driftq.outbox.Outbox, and the deliveries that wait for one consumer",
    "EventStore": "the client's class and the server's; users import the first as driftq.EventStore",
}
"""Class names that several modules may define, with the reason."""

ALLOWED_OLD: dict[str, str] = {}
"""`path::name` of a retired name that has to stay, with the reason."""


@dataclass(frozen=True, order=True)
class Definition:
    """A class, function or module, and where it is."""

    path: str
    line: int
    name: str
    kind: str
    """`class`, `function` or `module`."""

    def __str__(self) -> str:
        return f"{self.path}:{self.line}"


def definitions(path: Path, root: Path) -> Iterator[Definition]:
    """What a file defines at any depth, and the name of its module."""
    where = path.relative_to(root).as_posix()
    module = path.parent.name if path.name == "__init__.py" else path.stem
    yield Definition(where, 1, module, "module")
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"), filename=where)):
        if isinstance(node, ast.ClassDef):
            yield Definition(where, node.lineno, node.name, "class")
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield Definition(where, node.lineno, node.name, "function")


def read_retired(text: str) -> dict[str, str]:
    """The new name, or what to use instead, by the old name."""
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
    pairs = [line.split(" -> ", 1) for line in lines]
    return {old.strip(): new.strip() for old, new in pairs}


def defined_twice(found: Sequence[Definition]) -> Iterator[str]:
    """A line for each class name of src that more than one module defines."""
    by_name: dict[str, dict[str, Definition]] = {}
    for one in found:
        if one.kind == "class" and one.path.startswith("src/"):
            by_name.setdefault(one.name, {}).setdefault(one.path, one)
    for name, places in sorted(by_name.items()):
        if len(places) > 1 and name not in ALLOWED_TWICE:
            yield f"class {name} is defined {len(places)} times: {', '.join(map(str, places.values()))}"


def retired(found: Sequence[Definition], names: dict[str, str]) -> Iterator[str]:
    """A line for each definition that has a retired name."""
    for one in found:
        new = names.get(one.name) or names.get(f"{one.kind} {one.name}")
        if new and f"{one.path}::{one.name}" not in ALLOWED_OLD:
            yield f"{one}: the {one.kind} name {one.name} is retired; use {new}"


def problems(root: Path) -> list[str]:
    files = sorted(path for tree in TREES for path in (root / tree).rglob("*.py"))
    found = [one for path in files for one in definitions(path, root)]
    names = read_retired((root / RETIRED).read_text(encoding="utf-8"))
    return [*defined_twice(found), *retired(found, names)]


def main(arguments: Sequence[str] = ()) -> int:
    found = problems(Path(arguments[0]) if arguments else ROOT)
    for line in found:
        print(line, file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
