"""Other systems that clauses name, and the module of tests/ that starts each of them."""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

SYSTEMS = {
    "Elasticsearch": "tests.services_elasticsearch",
    "Kafka": "tests.services_kafka",
    "OpenSearch": "tests.services_opensearch",
    "Postgres": "tests.services_postgres",
    "Redis": "tests.services_redis",
    "S3": "tests.services_s3",
    "TerminusDB": "tests.services_terminusdb",
}
"""A test runs against a system when its module, or a conftest.py above it, imports this module."""

COMPARED_WITH = {
    ("Z2", "Kafka"): "the clause compares the source's columns with those of Spark's Kafka source",
    ("Z9", "Kafka"): "the clause compares the source's options with those of Spark's Kafka source",
}
"""Clauses that mention a system without promising anything about it, with the reason."""


def named_systems(clause: str, text: str) -> list[str]:
    """The systems that a clause makes a promise about."""
    return [
        system
        for system in SYSTEMS
        if re.search(rf"\b{system}(QL)?\b", text, re.IGNORECASE) and (clause, system) not in COMPARED_WITH
    ]


def started_systems(test: Path, tests: Path) -> set[str]:
    """The systems that a test module can start, itself or by the fixtures of its folders."""
    folders = [folder for folder in test.parents if folder.is_relative_to(tests)]
    modules = {name for file in (test, *(one / "conftest.py" for one in folders)) for name in _imported(file)}
    return {system for system, module in SYSTEMS.items() if module in modules}


@cache
def _imported(file: Path) -> frozenset[str]:
    return frozenset(_import_names(file)) if file.exists() else frozenset()


def _import_names(file: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
