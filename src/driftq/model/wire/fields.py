"""The base of all request types, and the ranges that their fields share.

Optional fields may be null.
"""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from driftq.model.options.limits import LEASE_MS_MAX

NAME_MAX = 255
REASON_MAX = 65_536
KEY_MAX = 65_536

Int64 = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]
Natural = Annotated[int, Meta(ge=0, le=2**63 - 1)]
Positive = Annotated[int, Meta(ge=1, le=2**63 - 1)]
LeaseMs = Annotated[int, Meta(ge=1, le=LEASE_MS_MAX)]
TopicName = Annotated[str, Meta(min_length=1)]
Name = Annotated[str, Meta(min_length=1, max_length=NAME_MAX)]
Reason = Annotated[str, Meta(max_length=REASON_MAX)]


OR_ERROR = Meta(extra_json_schema={"x-or-error": True})
"""On a list of results: where a part of the request failed, its result is an ErrorReply.

Only the OpenAPI document reads it. Decoding takes the type of the list alone; a list with errors in it is
decoded as plain objects, because an error may have any fields.
"""


class Request(msgspec.Struct, frozen=True, forbid_unknown_fields=True, gc=False):
    """A request without parameters, and the base of those that have some."""


class PageQuery(Request, frozen=True):
    """Which part of a list."""

    limit: Positive | None = None
    after: str | None = None
