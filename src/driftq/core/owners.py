"""Which tenant owns what.

The owner of a topic is a field of the topic. Queues and aggregate types exist only through their jobs and
events, so a table keeps their owners. An owner is set once and stays as long as the log: what was a tenant's
never becomes another's.
"""

from enum import IntEnum

from driftq.core.records import Record, register


class OwnedKind(IntEnum):
    """What an owner is set for; the numbers are in the log."""

    TOPIC = 1
    QUEUE = 2
    AGGREGATE_TYPE = 3


class OwnerSet(Record):
    """From now on this tenant owns it."""

    kind: int
    name: str
    tenant: str


class OwnerTable:
    """The owners of queues and aggregate types, by name."""

    __slots__ = ("aggregate_types", "queues")

    def __init__(self) -> None:
        self.queues: dict[str, str] = {}
        self.aggregate_types: dict[str, str] = {}

    def by_name(self, kind: OwnedKind) -> dict[str, str]:
        """Raises KeyError for topics, which name their owners themselves."""
        return {OwnedKind.QUEUE: self.queues, OwnedKind.AGGREGATE_TYPE: self.aggregate_types}[kind]


register(70, OwnerSet)
