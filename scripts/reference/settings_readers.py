"""Which commands use which part of the settings object, read from the syntax trees of the code."""

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

COMMANDS = {
    "serve": ("serve",),
    "serving": ("serve",),
    "doctor": ("doctor", "backup", "restore"),
    "registry": ("registry",),
    "db": ("db upgrade",),
    "stores": ("registry", "db upgrade"),
    "version": ("version",),
    "pipeline": ("pipeline",),
    "targets": ("pipeline",),
}
"""The commands of each module of `driftq.cli` that reads the settings object; `config` shows all of it."""

_GROUPS = ("credentials", "limits", "events", "registry", "publisher", "kafka", "serving")
_LOADERS = {"load_url": "url", "load_data": "data", "load_credentials": "credentials"}


def by_field(package: Path) -> dict[str, list[str]]:
    """For each field of the settings object, written with dots where need be, the commands that read it."""
    found: dict[str, set[str]] = {"profile": {"serve"}}  # By `load_settings` itself, without --profile.
    for module in sorted((package / "cli").glob("*.py")):
        for field in _fields_read(ast.parse(module.read_text(encoding="utf-8"))):
            if module.stem in COMMANDS:
                found.setdefault(field, set()).update(COMMANDS[module.stem])
            elif field in _LOADERS.values():
                found.setdefault(field, set()).add("commands with --url")
    passed_on = (
        "events",
        "registry",
        "publisher",
        "transport",
        "kafka",
        "sinks",
        "url",
        "data",
        "credentials",
    )  # By `pipeline()`.
    for field in passed_on:
        found.setdefault(field, set()).update(found.get("pipeline", ()))
    return {field: sorted(commands) for field, commands in found.items()}


def _fields_read(tree: ast.AST) -> Iterator[str]:
    """`settings.url` as `url`, `settings.events.database_url` as `events.database_url`."""
    called = {node.func for node in ast.walk(tree) if isinstance(node, ast.Call)}
    deeper = {
        node.value: node.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Attribute) and node not in called
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and _is_settings(node.value):
            below = deeper.get(node)
            yield f"{node.attr}.{below}" if below and node.attr in _GROUPS else node.attr
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in _LOADERS:
            yield _LOADERS[node.func.id]


def _is_settings(node: ast.expr) -> bool:
    if isinstance(node, ast.Name):
        return node.id == "settings"
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "load_settings"


def is_used(field: str, package: Path) -> bool:
    """Whether any code but that of the settings themselves reads an attribute of this name."""
    return field in _attributes_read(package)


@cache
def _attributes_read(package: Path) -> frozenset[str]:
    files = (
        path
        for path in package.rglob("*.py")
        if path.relative_to(package).parts[0] != "settings" and "options" not in path.parts
    )
    return frozenset(
        node.attr
        for path in files
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load)
    )
