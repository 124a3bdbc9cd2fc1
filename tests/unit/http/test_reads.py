"""One way to stored messages: a handler that reads past `http/reads.py` would miss the rule about damage."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import driftq.http

HTTP = Path(driftq.http.__file__).parent
OWN_WAYS = frozenset({"payloads", "job_reader", "damaged"})
"""Attributes of the engine that read stored messages, or are told of an error in them."""


def read_past_the_rule(source: str) -> Iterator[str]:
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Attribute) and node.attr in OWN_WAYS:
            owner = node.value
            name = owner.attr if isinstance(owner, ast.Attribute) else getattr(owner, "id", "")
            if name == "engine":
                yield f"engine.{node.attr} in line {node.lineno}"


@pytest.mark.clause("W4")
def test_handlers_read_stored_messages_in_one_way() -> None:
    found = {
        str(file.relative_to(HTTP)): ways
        for file in HTTP.rglob("*.py")
        if file != HTTP / "reads.py" and (ways := list(read_past_the_rule(file.read_text())))
    }
    assert found == {}


def test_the_check_sees_a_read_of_its_own() -> None:
    assert list(read_past_the_rule("entries = edge.engine.payloads.read(index, ordinals)")) == [
        "engine.payloads in line 1"
    ]
    assert list(read_past_the_rule((HTTP / "reads.py").read_text())) != []
