"""What a worker stores beside its claims: events that wait outside their topic, or for the event store.

A reader of a topic advances only past settled events. An event that cannot be settled now, because an earlier
one is missing or an operator has to resolve its effect, is *parked*: stored with its text in the registry's
database, so that the reader can advance and a worker handles the event when it is ready. Dead letters are
parked as well, because one that is requeued must still have its text.

Derived events are kept in the transaction that marks their source, and dropped when the event store has them:
they are appended if and only if the source is done.

Positions say how far topics were read: every event before one is done, a dead letter, or parked here.
"""

from driftq.registry.parking.applied_positions import AppliedPartition, AppliedPositions
from driftq.registry.parking.derived_rows import DerivedRow, DerivedRows
from driftq.registry.parking.parked import ParkedEvent, Parking, ReadyEvent, WaitingEvent

__all__ = [
    "AppliedPartition",
    "AppliedPositions",
    "DerivedRow",
    "DerivedRows",
    "ParkedEvent",
    "Parking",
    "ReadyEvent",
    "WaitingEvent",
]
