"""What a caller may see in the dashboard's own lists and numbers. Every one of them asks here.

A key that is limited to some topics, or to a tenant, gets sums over what it may see, computed for it alone;
the server's counters and other owners' queues are not in them.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from driftq.core.effects import STEPS_TOPIC
from driftq.http.wire.exchange import Exchange
from driftq.model.topic import DEAD_LETTER_PREFIX


@dataclass(frozen=True, slots=True)
class VisibleScope:
    """Equal scopes see the same, so that one computation serves them."""

    name: str
    """Empty for everything, else the id of the key."""
    exchange: Exchange = field(compare=False)

    @classmethod
    def of(cls, exchange: Exchange) -> VisibleScope:
        key = exchange.caller
        limited = key is not None and (bool(key.topics) or key.tenant is not None)
        return cls(key.id if key is not None and limited else "", exchange)

    @property
    def is_whole(self) -> bool:
        return not self.name

    @property
    def sees_all_queues(self) -> bool:
        key = self.exchange.caller
        return key is None or key.tenant is None

    @property
    def tenant(self) -> str | None:
        return self.exchange.tenant

    @property
    def sees_steps(self) -> bool:
        """Steps are effects of one topic, which a key may not reach."""
        key = self.exchange.caller
        return key is None or key.reaches(STEPS_TOPIC)

    def sees_topic(self, topic: str) -> bool:
        """Dead letters belong to the topic that they come from."""
        return self.is_whole or self.exchange.shows(topic.removeprefix(DEAD_LETTER_PREFIX))
