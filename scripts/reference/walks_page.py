"""docs/explanation/walks.md: the walks of walks.toml, with links to the functions."""

from __future__ import annotations

import ast
import tomllib
from functools import cache
from pathlib import Path
from typing import Any

from scripts.reference.markdown import head

SOURCE = Path(__file__).resolve().parents[2] / "src/driftq"
WALKS: list[dict[str, Any]] = tomllib.loads(
    (Path(__file__).parent / "walks.toml").read_text(encoding="utf-8")
)["walk"]
_INTRODUCTION = (
    "Each walk follows the calls from a request to its last effect. The links lead to the functions in the "
    "repository. A file is counted when one of its functions runs for the message, the job or the event and "
    "does not run on an idle server and pipeline. Tests trace all three walks with a profiler and compare "
    "the files with this page."
)


def page() -> str:
    parts = [*head("Three walks through the code", "scripts/reference/walks.toml"), _INTRODUCTION]
    for number, walk in enumerate(WALKS):
        count = f"The walk passes {len(files(number))} files of `src/driftq/`."
        steps = [f"{place}. {_step(step)}" for place, step in enumerate(walk["step"], 1)]
        parts += [f"## {walk['title']}", walk["text"], count, "\n".join(steps)]
    return "\n\n".join(parts) + "\n"


def files(walk: int) -> list[str]:
    """The files of a walk, in the order in which it enters them."""
    calls = [call for step in WALKS[walk]["step"] for call in step["calls"]]
    return list(dict.fromkeys(call.partition(":")[0] for call in calls))


def _step(step: dict[str, Any]) -> str:
    return "\n".join([step["text"], *(f"    - {_link(call)}" for call in step["calls"])])


def _link(call: str) -> str:
    path, _, name = call.partition(":")
    return f"[`{name}`](../../src/driftq/{path}#L{_lines(path)[name]}) in `{path}`"


@cache
def _lines(path: str) -> dict[str, int]:
    """The line of every class, function and method of a file, by qualified name."""
    found: dict[str, int] = {}

    def look(node: ast.AST, prefix: str) -> None:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
                found[prefix + child.name] = child.lineno
                look(child, f"{prefix}{child.name}.")

    look(ast.parse((SOURCE / path).read_text(encoding="utf-8")), "")
    return found
