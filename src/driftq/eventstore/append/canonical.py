"""Canonical JSON, and the hash by which two uses of one event_id are compared.

Canonical means: names sorted by code point, no spaces, UTF-8, integers in full, floats in the shortest form
that reads back to the same number. NaN and infinities are not JSON; they are refused, not turned into null.
"""

import hashlib
import json
from collections.abc import Callable
from functools import lru_cache
from json import encoder
from typing import Any

from driftq.errors import InvalidArgument
from driftq.model import Aggregate

quoted = encoder.encode_basestring
"""A text as JSON."""


def _encoding() -> Callable[[Any], str]:
    """The canonical text of a value, without the checks that `canonical_json` adds.

    JSONEncoder rebuilds its inner part for each value, which costs as much as encoding a small one; where
    Python has that part in C, it is built once. A value that contains itself fails as nested too deeply, so
    no list of visited values is needed.
    """
    plain = json.JSONEncoder(
        ensure_ascii=False, allow_nan=False, sort_keys=True, separators=(",", ":"), check_circular=False
    )
    make = getattr(encoder, "c_make_encoder", None)
    if make is None:
        return plain.encode
    pieces = make(None, plain.default, quoted, None, ":", ",", True, False, False)
    return lambda value: "".join(pieces(value, 0))


_encoded = _encoding()


def canonical_json(value: Any, *, field: str) -> str:
    """The one text for a JSON value; raises InvalidArgument naming the field when it has none."""
    if type(value) is int and abs(value) < 2**53:
        return str(value)
    try:
        text = _encoded(value)
        if not text.isascii():
            text.encode("utf-8")
    except UnicodeEncodeError:
        raise InvalidArgument(field, "contains a lone surrogate") from None
    except (TypeError, ValueError) as error:
        raise InvalidArgument(field, f"is not JSON: {error}") from None
    except RecursionError:
        raise InvalidArgument(field, "is nested too deeply") from None
    return text


def content_hash(
    aggregate: Aggregate, *, event_type: str, kind: str, operation: str, payload_json: str
) -> str:
    """SHA-256, in hex, of the canonical JSON array of the fields that identify an event's content."""
    whose = f"{quoted(aggregate.type)},{quoted(aggregate.id)}"
    array = f"[{whose},{_what(event_type, kind, operation)},{payload_json}]"
    return hashlib.sha256(array.encode()).hexdigest()


@lru_cache(maxsize=256)
def _what(event_type: str, kind: str, operation: str) -> str:
    """The part of the array that many events share."""
    return f"{quoted(event_type)},{quoted(kind)},{quoted(operation)}"
