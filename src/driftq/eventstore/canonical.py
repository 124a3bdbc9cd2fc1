"""Canonical JSON, and the hash by which two uses of one event_id are compared.

Canonical means: names sorted by code point, no spaces, UTF-8, integers in full, floats in the shortest form
that reads back to the same number. NaN and infinities are not JSON; they are refused, not turned into null.
"""

import hashlib
import json
from json.encoder import encode_basestring
from typing import Any

from driftq.errors import InvalidArgument
from driftq.model import Aggregate, Operation

quoted = encode_basestring
"""A text as JSON."""

_ENCODER = json.JSONEncoder(
    ensure_ascii=False, allow_nan=False, sort_keys=True, separators=(",", ":"), check_circular=False
)
"""What holds itself is nested too deep: nobody need keep a list of what was met on the way."""


def canonical_json(value: Any, *, field: str) -> str:
    """The one text for a JSON value; raises InvalidArgument naming the field when it has none."""
    if type(value) is int and abs(value) < 2**53:
        return str(value)
    try:
        text = _ENCODER.encode(value)
        if not text.isascii():
            text.encode("utf-8")
    except UnicodeEncodeError:
        raise InvalidArgument(field, "holds half of a surrogate pair") from None
    except (TypeError, ValueError) as error:
        raise InvalidArgument(field, f"is not JSON: {error}") from None
    except RecursionError:
        raise InvalidArgument(field, "is nested too deep") from None
    return text


def content_hash(
    aggregate: Aggregate, *, event_type: str, kind: str, operation: Operation, payload_json: str
) -> str:
    """SHA-256, in hex, of the canonical JSON array of what makes an event the same event."""
    whose = f"{quoted(aggregate.type)},{quoted(aggregate.id)}"
    what = f"{quoted(event_type)},{quoted(kind)},{quoted(operation.value)}"
    return hashlib.sha256(f"[{whose},{what},{payload_json}]".encode()).hexdigest()
