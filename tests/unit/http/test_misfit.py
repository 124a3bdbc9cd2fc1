"""Refused bodies are told in the words of JSON, with the field that does not fit."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
import pytest
from msgspec import Meta

from driftq.errors import InvalidArgument
from driftq.errors.misfit import misfit
from driftq.http.api.params import Form, body_problem
from driftq.http.messages.handlers import read_message
from driftq.model.wire.fields import Request


class Inner(Request, frozen=True):
    count: Annotated[int, Meta(ge=1, le=5)] | None = None


class Body(Request, frozen=True):
    name: Annotated[str, Meta(min_length=1, max_length=3)]
    number: int = 0
    ratio: float = 0.0
    flag: bool = False
    inner: Inner | None = None
    numbers: list[int] = msgspec.field(default_factory=list)
    words: dict[str, str] = msgspec.field(default_factory=dict)
    start: Literal["earliest", "latest"] | None = None


def said(text: str, kind: Any = Body) -> str:
    with pytest.raises(ValueError) as refused:
        msgspec.json.decode(text, type=kind)
    return body_problem(refused.value).message


@pytest.mark.clause("H2")
@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[]", "the body must be an object, not an array"),
        ("{}", "name: is missing"),
        ('{"name": {}}', "name: must be a string, not an object"),
        ('{"name": null}', "name: must be a string, not null"),
        ('{"name": ""}', "name: must be a string, at least 1 character long"),
        ('{"name": "abcd"}', "name: must be a string, at most 3 characters long"),
        ('{"name": "a", "number": "1"}', "number: must be an integer, not a string"),
        ('{"name": "a", "number": 1.5}', "number: must be an integer, not a number with a fraction"),
        ('{"name": "a", "ratio": []}', "ratio: must be a number, not an array"),
        ('{"name": "a", "flag": 1}', "flag: must be true or false, not an integer"),
        ('{"name": "a", "inner": 3}', "inner: must be an object or null, not an integer"),
        ('{"name": "a", "inner": {"count": 0}}', "inner.count: must be an integer, at least 1"),
        ('{"name": "a", "inner": {"count": 9}}', "inner.count: must be an integer, at most 5"),
        ('{"name": "a", "inner": {"cuont": 9}}', "inner.cuont: unknown field"),
        ('{"name": "a", "nmae": "b"}', "nmae: unknown field"),
        ('{"name": "a", "numbers": [1, "b"]}', "numbers[1]: must be an integer, not a string"),
        ('{"name": "a", "words": {"b": 1}}', "words: must be a string, not an integer"),
        (
            '{"name": "a", "start": "soon"}',
            "start: must not be 'soon': that is none of the values allowed here",
        ),
    ],
)
def test_what_does_not_fit_is_named_in_plain_words(text: str, words: str) -> None:
    assert said(text) == words


@pytest.mark.clause("H2")
def test_one_of_a_list_is_named_by_its_place() -> None:
    assert said('[{"name": "a"}, {}]', list[Body]) == "[1].name: is missing"
    assert said('[{"name": 1}]', list[Body]) == "[0].name: must be a string, not an integer"


@pytest.mark.clause("H2")
def test_a_query_is_told_as_a_body_is() -> None:
    with pytest.raises(InvalidArgument, match=r"^name: is missing$"):
        Form(Body).from_query(b"number=1")


@pytest.mark.clause("H2", "P1")
def test_an_object_as_a_value_is_told_what_to_do() -> None:
    with pytest.raises(InvalidArgument) as refused:
        read_message(b'{"topic": "orders", "value": {"drink": "tea"}}')
    assert refused.value.field == "value"
    assert refused.value.message.startswith("value: must be a string, not an object; a value is text")
    assert "Python client" in refused.value.message


def test_words_that_are_not_known_lose_their_backticks_only() -> None:
    assert misfit("Something `new` - at `$.field`").message == "field: something new"
