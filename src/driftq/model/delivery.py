"""One hand-over of a message to a consumer, as it looks on the wire."""

import msgspec

from driftq.model.envelope import Envelope
from driftq.model.message import Routing


class DeliveryLine(msgspec.Struct, frozen=True, gc=False):
    """A line of the consume stream."""

    partition: int
    offset: int
    attempts: int
    value: str
    key: str = ""
    last_error: str = ""
    routing: Routing | None = None
    envelope: Envelope | None = None
    requested_topic: str | None = None
    tries: int | None = None
    """Deliveries that count towards the retry policy, this one included; absent where `attempts` says it."""
