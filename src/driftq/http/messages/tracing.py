"""The trace that a request belongs to, kept with the messages that it produces."""

from __future__ import annotations

from typing import cast

import msgspec

from driftq.model.envelope import EnvelopeBody
from driftq.model.wire.produce import ProduceBody
from driftq.server.produce.prepare import Produced


def traced(message: Produced, traceparent: str) -> Produced:
    """The message with the header's `traceparent` in its envelope, unless it has one of its own."""
    given = cast(ProduceBody, message)
    envelope = given.envelope
    if envelope is None:
        return cast(Produced, msgspec.structs.replace(given, envelope=EnvelopeBody(traceparent=traceparent)))
    if envelope.traceparent is not None:
        return message
    continued = msgspec.structs.replace(envelope, traceparent=traceparent)
    return cast(Produced, msgspec.structs.replace(given, envelope=continued))
