"""Deliveries begin and end: expired leases come back, and what is ready is dealt to those with room."""

from driftq.core.decide import decide_deliveries, decide_expiries
from driftq.core.group import Group
from driftq.server.counters import Counters
from driftq.server.dispatcher import Dispatcher, Ring, Seat
from driftq.server.journal import Journal
from driftq.server.outbox import Outbox
from driftq.server.parcel import Parcel
from driftq.server.timers import Timers

Parcels = list[tuple[Outbox, Parcel]]


class Deliveries:
    """The dispatching half of a turn."""

    def __init__(self, journal: Journal, dispatcher: Dispatcher, timers: Timers, counters: Counters) -> None:
        self._journal = journal
        self._dispatcher = dispatcher
        self._timers = timers
        self._counters = counters

    def end_expired(self, now: int) -> None:
        """Leases that are over, and retries that are due: their groups have work again."""
        for group, partition in self._timers.pop_due(now):
            if self._journal.state.groups_by_id.get(group.id) is not group:
                continue  # It was deleted meanwhile.
            record = decide_expiries(group, partition, now=now)
            if record is not None:
                self._journal.add(record)
                self._counters.expired += len(record.ended)
            group.partitions[partition].find_due(now)
            self._timers.note(group, partition)
            self._dispatcher.wake(group.topic, group.name, partition)

    def deal(self, now: int) -> Parcels:
        """Deliver all that can be delivered; the parcels go out when the commit is durable."""
        parcels: Parcels = []
        for ring in self._dispatcher.awake():
            group = self._journal.state.find_group(ring.topic, ring.group)
            if group is not None:
                self._deal_ring(ring, group, parcels, now)
        return parcels

    def _deal_ring(self, ring: Ring, group: Group, parcels: Parcels, now: int) -> None:
        for partition in list(ring.ready):
            progress = group.partitions[partition]
            if not progress.has_work(now):
                del ring.ready[partition]
                continue
            seats, takers = ring.takers(group, partition)
            if not takers:
                return
            deal = decide_deliveries(group, partition, takers, limits=self._journal.state.limits, now=now)
            if deal is None:
                del ring.ready[partition]  # In flight is what may be; an ack wakes it.
                continue
            blocks = self._journal.add_delivered(deal.record)
            fresh = len(deal.record.fresh)
            for number, (seat, block) in enumerate(zip(deal.seats, blocks, strict=True)):
                parcel = Parcel(progress, block, partition=partition, again=number >= fresh)
                self._hand_over(seats[seat], parcel, parcels)
                block.give_to(seats[seat].holder, size_bytes=parcel.size_bytes())
            again = sum(len(block.ordinals) for block in deal.record.again)
            self._counters.delivered += deal.count
            self._counters.redelivered += again
            self._timers.note(group, partition)
            ring.passed(seats[deal.last])
            if progress.has_work(now):
                ring.ready[partition] = ring.ready.pop(partition)  # Behind the others.
            else:
                del ring.ready[partition]

    @staticmethod
    def _hand_over(seat: Seat, parcel: Parcel, parcels: Parcels) -> None:
        parcels.append((seat.outbox, parcel))
