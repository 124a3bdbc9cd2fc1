"""From a body or a query to a request type; anything invalid raises an InvalidArgument that names the field.

A body that is not empty is the request. The query's names are still checked, its values are ignored.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Generic, TypeVar
from urllib.parse import unquote_to_bytes

import msgspec

from driftq.access.file import NAME as TENANT_NAME
from driftq.errors import InvalidArgument, PayloadTooLarge
from driftq.errors.misfit import misfit
from driftq.http.wire.exchange import Exchange
from driftq.model.wire.fields import Request

T = TypeVar("T", bound=Request)

_INTEGER = re.compile(r"-?[0-9]{1,19}")
_BAD_ESCAPE = re.compile(rb"%(?![0-9A-Fa-f]{2})")
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")
_BOOLEANS = {"true": True, "1": True, "false": False, "0": False}


def split_query(query: bytes) -> dict[str, str]:
    """Names and values, percent-decoded."""
    found: dict[str, str] = {}
    for pair in query.split(b"&"):
        if not pair:
            continue
        name, _, value = pair.partition(b"=")
        key = unquote(name.replace(b"+", b" "), "query")
        if key in found:
            raise InvalidArgument(key, "is given more than once in the query")
        found[key] = unquote(value.replace(b"+", b" "), key)
    return found


def unquote(octets: bytes, field: str) -> str:
    """Percent-decoded UTF-8."""
    if b"%" in octets:
        if _BAD_ESCAPE.search(octets):
            raise InvalidArgument(field, "has a % that is not followed by two hexadecimal digits")
        octets = unquote_to_bytes(octets)
    try:
        return octets.decode()
    except UnicodeDecodeError:
        raise InvalidArgument(field, "is not UTF-8") from None


def check_name(field: str, name: str) -> None:
    """Refuse a group, owner or reader that cannot be printed on one line."""
    if not name.isprintable() and _CONTROL.search(name):
        raise InvalidArgument(field, "must not have control characters")


def check_tenant(name: str | None) -> None:
    """Refuse a tenant that no key can have."""
    if name is not None and not TENANT_NAME.fullmatch(name):
        raise InvalidArgument("tenant", "must be 1 to 100 characters of A-Z a-z 0-9 . _ @ -")


def check_json(field: str, given: msgspec.Raw, *, limit_bytes: int | None = None) -> None:
    """Refuse a value that is too large, or that is passed on unparsed and that a reader could not parse."""
    if limit_bytes is not None and len(bytes(given)) > limit_bytes:
        raise PayloadTooLarge(limit_bytes=limit_bytes)
    try:
        msgspec.json.decode(given)
    except (ValueError, RecursionError) as error:
        raise InvalidArgument(field, body_problem(error).problem) from None


def decode(decoder: msgspec.json.Decoder[T], body: bytes) -> T:
    """A body as its type."""
    try:
        return decoder.decode(body)
    except (ValueError, RecursionError) as error:
        raise body_problem(error) from None


def body_problem(error: Exception) -> InvalidArgument:
    """The problem with a body, from the decoder's error."""
    if isinstance(error, msgspec.ValidationError):
        return misfit(str(error))
    if isinstance(error, RecursionError):
        return InvalidArgument("", "the body is nested too deeply")
    if isinstance(error, UnicodeDecodeError):
        return InvalidArgument("", "the body is not UTF-8")
    return InvalidArgument("", f"the body is not JSON: {error}")


class Form(Generic[T]):
    """One request type, ready to be read from a body or a query."""

    def __init__(self, kind: type[T]) -> None:
        self.kind = kind
        self._decoder = msgspec.json.Decoder(kind)
        self._readers = {field.encode_name: _reader_of(field.type) for field in msgspec.structs.fields(kind)}

    def read(self, body: bytes, query: bytes) -> T:
        if not body:
            return self.from_query(query)
        if query:
            self.check_query(query)
        return decode(self._decoder, body)

    def check_query(self, query: bytes) -> None:
        """Refuse unknown names, even when the body is the request."""
        self._check_names(split_query(query))

    def _check_names(self, given: dict[str, str]) -> None:
        unknown = [name for name in given if name not in self._readers]
        if unknown:
            raise InvalidArgument("", f"unknown query parameter {', '.join(map(repr, unknown))}")

    def from_query(self, query: bytes) -> T:
        given = split_query(query) if query else {}
        self._check_names(given)
        fields: dict[str, Any] = {}
        for name, text in given.items():
            read = self._readers[name]
            if read is None:
                raise InvalidArgument(name, "can be given in a JSON body only")
            fields[name] = read(name, text)
        try:
            return msgspec.convert(fields, self.kind)
        except msgspec.ValidationError as error:
            raise misfit(str(error)) from None


def _read_text(_: str, text: str) -> str:
    return text


def _read_integer(name: str, text: str) -> int:
    if not _INTEGER.fullmatch(text) or not -(2**63) <= int(text) < 2**63:
        raise InvalidArgument(name, "must be an integer")
    return int(text)


def _read_boolean(name: str, text: str) -> bool:
    value = _BOOLEANS.get(text)
    if value is None:
        raise InvalidArgument(name, "must be true or false")
    return value


_READERS: dict[type, Callable[[str, str], Any]] = {
    msgspec.inspect.StrType: _read_text,
    msgspec.inspect.LiteralType: _read_text,
    msgspec.inspect.IntType: _read_integer,
    msgspec.inspect.BoolType: _read_boolean,
}


def _reader_of(annotation: Any) -> Callable[[str, str], Any] | None:
    """How a field is read from a query; None when it has too much structure for one."""
    kind = msgspec.inspect.type_info(annotation)
    kinds = kind.types if isinstance(kind, msgspec.inspect.UnionType) else (kind,)
    for part in kinds:
        if type(part) in _READERS:
            return _READERS[type(part)]
    return None


_Whole = TypeVar("_Whole", bound=Request)
_Parts = TypeVar("_Parts", bound=Request)


def read_many(exchange: Exchange, form: Form[_Whole], parts: msgspec.json.Decoder[_Parts]) -> _Whole | _Parts:
    """The whole body; or, when one item is invalid, the body with undecoded items, so that it fails alone."""
    try:
        return form.read(exchange.body, exchange.query)
    except InvalidArgument:
        if not exchange.body:
            raise
        form.check_query(exchange.query)
        return decode(parts, exchange.body)


def check_count(exchange: Exchange, field: str, given: int) -> None:
    if given > exchange.edge.options.batch_max:
        raise InvalidArgument(field, f"at most {exchange.edge.options.batch_max} in one request")
