"""Every error that a server can answer comes out of the client as it went in."""

import inspect
from typing import Any, get_type_hints

import msgspec
import pytest

from driftq import errors
from driftq.errors import DriftQError
from driftq.http.wire.exchange import error_body
from driftq.transport.errors import all_errors, read_error, rebuild

TREE = sorted(all_errors(), key=lambda kind: kind.__name__)
_SAMPLES = {str: "a text", int: 7, bool: True}


def sample(kind: type[DriftQError]) -> DriftQError:
    """An error of this class with something in every field."""
    if kind.__init__ is Exception.__init__:
        return kind("what happened")
    hints = get_type_hints(kind.__init__)
    given: dict[str, Any] = {}
    for name in list(inspect.signature(kind.__init__).parameters)[1:]:
        hint = hints.get(name, str)
        given[name] = _SAMPLES.get(hint, 7)
    return kind(**given)


def test_the_tree_has_everything_that_the_module_has() -> None:
    named = {
        value for value in vars(errors).values() if isinstance(value, type) and issubclass(value, DriftQError)
    }
    assert set(TREE) == named


@pytest.mark.clause("H2")
@pytest.mark.parametrize("kind", TREE, ids=lambda kind: kind.__name__)
def test_an_error_is_rebuilt_with_its_class_and_its_fields(kind: type[DriftQError]) -> None:
    raised = sample(kind)
    found = read_error(raised.status, error_body(raised))
    assert type(found) is kind
    assert str(found) == str(raised)
    assert (found.code, found.status, found.reason) == (raised.code, raised.status, raised.reason)
    for name, value in vars(raised).items():
        assert getattr(found, name) == value, name


@pytest.mark.clause("H2")
def test_a_server_that_names_no_kind_is_understood_by_reason_and_code() -> None:
    full = {"error": "RESOURCE_EXHAUSTED", "message": "m", "reason": "overloaded", "retry_after_ms": 70}
    found = rebuild(full)
    assert isinstance(found, errors.Overloaded)
    assert found.retry_after_ms == 70
    assert (
        type(rebuild({"error": "FAILED_PRECONDITION", "message": "not owner"})) is errors.FailedPrecondition
    )
    assert type(rebuild({"error": "NOT_FOUND", "message": "m", "kind": "Unheard"})) is errors.NotFound


@pytest.mark.parametrize("body", [b"", b"<html>", b"[]", b'"text"', b"\xff"])
def test_an_answer_from_something_else_is_still_an_error(body: bytes) -> None:
    found = read_error(502, body)
    assert type(found) is DriftQError
    assert found.status == 502


def test_long_texts_are_cut_everywhere() -> None:
    body = error_body(errors.InvalidArgument("field", "x" * 5000))
    fields = msgspec.json.decode(body)
    assert max(len(value) for value in fields.values()) <= 1001
