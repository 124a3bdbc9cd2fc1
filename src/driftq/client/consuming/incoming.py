"""Values that a server sends, and how they are read."""

from __future__ import annotations

import binascii
from base64 import b64decode
from typing import Any, Protocol, TypeVar

import msgspec

from driftq.client.producing.outgoing import BYTES_MARK
from driftq.errors import InvalidArgument
from driftq.errors.misfit import misfit
from driftq.model import Envelope, Routing
from driftq.model.reply import Reply

_T = TypeVar("_T")


class Receipt(Reply, frozen=True, gc=False):
    """Where a message is stored, or was stored before when it is a duplicate."""

    topic: str
    partition: int
    offset: int
    duplicate: bool = False
    payload_mismatch: bool = False


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


class RecordedMessage(StoredValue, frozen=True, gc=False):
    """A stored message, read without a group."""

    partition: int
    offset: int
    timestamp: str
    value: str
    key: str = ""
    envelope: Envelope | None = None
    routing: Routing | None = None
    requested_topic: str | None = None


def json_of(value: str, kind: type[_T] | Any = Any) -> Any:
    """A value read as JSON, as the given type; raises InvalidArgument."""
    try:
        return msgspec.json.decode(value, type=kind)
    except msgspec.ValidationError as error:
        problem = misfit(str(error), whole="it")
        raise InvalidArgument("value", f"is not what was expected: {problem}") from error
    except (ValueError, RecursionError) as error:
        raise InvalidArgument("value", f"is not what was expected: {error}") from error


def bytes_of(value: str) -> bytes:
    """The bytes that a value was produced from; for a text, its UTF-8."""
    if value.startswith(BYTES_MARK):
        try:
            return b64decode(value[len(BYTES_MARK) :], validate=True)
        except binascii.Error:
            pass  # A text that only looks like bytes.
    return value.encode()
