"""The text of a stored value, read back as it was produced: text, JSON or bytes."""

from __future__ import annotations

import binascii
from base64 import b64decode
from typing import Any, Protocol, TypeVar

import msgspec

from driftq.errors import InvalidArgument
from driftq.errors.misfit import misfit

BYTES_MARK = "data:application/octet-stream;base64,"
"""The prefix of a value's text that was produced as bytes."""

_T = TypeVar("_T")


class _Valued(Protocol):
    @property
    def value(self) -> str: ...


class StoredValue(msgspec.Struct, frozen=True, gc=False):
    """The ways to read a value that was produced as text, JSON or bytes."""

    def json(self: _Valued) -> Any:
        """The value, read as JSON; raises InvalidArgument."""
        return json_of(self.value)

    def decode(self: _Valued, kind: type[_T]) -> _T:
        """The value, read as JSON of this type (a dataclass, a TypedDict, …); raises InvalidArgument."""
        found: _T = json_of(self.value, kind)
        return found

    def bytes(self: _Valued) -> bytes:
        """The value as the bytes it was produced from; for a text, its UTF-8."""
        return bytes_of(self.value)


def json_of(value: str, kind: type[_T] | Any = Any) -> Any:
    """A value read as JSON, as the given type; raises InvalidArgument."""
    try:
        return msgspec.json.decode(value, type=kind)
    except msgspec.ValidationError as error:
        problem = misfit(str(error), whole="it")
        raise InvalidArgument("value", f"does not have the expected form: {problem}") from error
    except (ValueError, RecursionError) as error:
        raise InvalidArgument("value", f"does not have the expected form: {error}") from error


def bytes_of(value: str) -> bytes:
    """The bytes that a value was produced from; for a text, its UTF-8."""
    if value.startswith(BYTES_MARK):
        try:
            return b64decode(value[len(BYTES_MARK) :], validate=True)
        except binascii.Error:
            pass  # A text that only looks like bytes.
    return value.encode()
