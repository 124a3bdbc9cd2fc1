"""The retry policy and the metadata of a job, as requests give them and replies show them."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from driftq.model.wire.fields import Request

ATTEMPTS_MAX = 10_000
WAIT_MS_LONGEST = 366 * 86_400_000
METADATA_NAMES_MAX = 64
METADATA_BYTES_MAX = 8_192

Attempts = Annotated[int, Meta(ge=1, le=ATTEMPTS_MAX)]
WaitMs = Annotated[int, Meta(ge=0, le=WAIT_MS_LONGEST)]
Jitter = Literal["full", "none"]
Metadata = Annotated[
    dict[str, str],
    Meta(max_length=METADATA_NAMES_MAX, description=f"At most {METADATA_BYTES_MAX} bytes together."),
]


class JobRetryBody(Request, frozen=True, omit_defaults=True):
    """How a job is retried: before retry k it waits up to `base_ms` · 2^(k-1), at most `cap_ms`.

    With the jitter "none" it waits exactly that long. What is not given is the server's default.
    """

    max_attempts: Attempts | None = None
    base_ms: WaitMs | None = None
    cap_ms: WaitMs | None = None
    jitter: Jitter | None = None


class JobRetryView(msgspec.Struct, frozen=True):
    """The retry policy of a job."""

    max_attempts: int
    base_ms: int
    cap_ms: int
    jitter: Jitter
