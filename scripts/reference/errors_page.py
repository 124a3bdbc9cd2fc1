"""docs/reference/errors.md: which error becomes which status, code and reason, from the error classes."""

import ast
import inspect
import re
import textwrap
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from driftq import errors
from driftq.errors import DriftQError
from scripts.reference.markdown import code, head, joined, one_paragraph, table

SOURCE = Path(__file__).resolve().parents[2] / "src/driftq"
INTRO = """\
An error over HTTP is JSON: `{"error": CODE, "message": TEXT, "kind": CLASS}`, with `reason` where
the class has one, and with the fields of the class. Branch on `error`, `reason` or `kind`; the text
of `message` may change. The Python client raises the class that `kind` names, with the same fields."""
OTHERS = """\
The other classes of `driftq.errors` never become an HTTP answer. They are raised where the files,
the database, a read model or the pipeline fail, and by the client itself."""


def page() -> str:
    parts = [*head("Errors", "src/driftq/errors"), INTRO]
    by_status: dict[int, list[type[DriftQError]]] = {}
    for kind in _below(DriftQError):
        by_status.setdefault(kind.status, []).append(kind)
    for status in sorted(by_status):
        kinds = by_status[status]
        parts.append(f"## {status} {' and '.join(dict.fromkeys(kind.code for kind in kinds))}")
        rows = [
            (code(kind.__name__), code(kind.code), _reason(kind), _fields(kind), _meaning(kind))
            for kind in kinds
        ]
        parts.append(table(("Class", "`error`", "`reason`", "Fields", "Meaning"), rows))
    tree = (errors.__doc__ or "").split("\n\n")[1]
    parts += ["## The tree", OTHERS, f"```text\n{inspect.cleandoc(tree)}\n```"]
    return joined(parts)


def _below(kind: type[DriftQError]) -> Iterator[type[DriftQError]]:
    """Every class below this one, each once, a parent before its children."""
    seen: set[type[DriftQError]] = set()
    for child in sorted(kind.__subclasses__(), key=lambda one: one.__name__):
        for found in (child, *_below(child)):
            if found.__module__.startswith("driftq.errors") and found not in seen:
                seen.add(found)
                yield found


def _reason(kind: type) -> str:
    reason = getattr(kind, "reason", None)
    return code(reason) if isinstance(reason, str) else ""


def _fields(kind: type) -> str:
    """The attributes that an error gets besides its text; the wire shows each of them."""
    names = re.findall(r"self\.([a-z]\w*) =", _init_source(kind))
    return ", ".join(map(code, dict.fromkeys(names)))


def _meaning(kind: type) -> str:
    """The docstring, else the error's text with its fields in braces."""
    if vars(kind).get("__doc__"):
        return one_paragraph(kind.__doc__)
    if kind.__subclasses__():
        return "The kind of the classes that follow."
    if kind.__name__ not in _names_used(SOURCE):
        return "Not raised by this version."
    for node in ast.walk(ast.parse(_init_source(kind))):
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "super().__init__" and node.args:
            return code(_template(node.args[0]))
    return ""


def _init_source(kind: type) -> str:
    init = inspect.getattr_static(kind, "__init__", None)
    return textwrap.dedent(inspect.getsource(init)) if inspect.isfunction(init) else ""


def _template(node: ast.expr) -> str:
    if isinstance(node, ast.Constant):
        return str(node.value)
    if isinstance(node, ast.JoinedStr):
        return "".join(map(_template, node.values))
    if isinstance(node, ast.FormattedValue):
        return f"{{{ast.unparse(node.value)}}}"
    return _template(node.body) if isinstance(node, ast.IfExp) else f"{{{ast.unparse(node)}}}"


@cache
def _names_used(package: Path) -> frozenset[str]:
    """Every name that the code outside `driftq.errors` imports."""
    files = (path for path in package.rglob("*.py") if path.relative_to(package).parts[0] != "errors")
    return frozenset(
        alias.name
        for path in files
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    )
