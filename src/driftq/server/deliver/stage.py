"""Deliveries begin and end: expired leases come back, and what is ready is dealt to those with room."""

from __future__ import annotations

from collections.abc import Callable

from driftq.core.dead_lettered import DeadLettered
from driftq.core.decide import decide_deliveries, decide_expiries, decide_passing, settled
from driftq.core.decide.effects import scope_of
from driftq.core.group import Group
from driftq.core.index import FLAG_KEYED
from driftq.core.keys import MessageRef
from driftq.core.records import SETTLED_BY_ACK, SETTLED_PASSED
from driftq.core.state import Topic
from driftq.errors import NotConfirmed
from driftq.model import StoredMessage
from driftq.server.counters import Counters
from driftq.server.deliver.batch import DeliveryBatch
from driftq.server.deliver.consumers import Consumers, Members
from driftq.server.deliver.outbox import Outbox
from driftq.server.deliver.timers import Timers
from driftq.server.effects.stage import EffectsStage, identity_of
from driftq.server.lookup import MessageLookup
from driftq.server.settle.dead_letters import DeadLettering
from driftq.server.wakeup import CommitBackoff
from driftq.storage.entry import decode_entry, produced_at
from driftq.storage.journal import Journal

_READ_AGAIN_MS = 1_000

Parcels = list[tuple[Outbox, DeliveryBatch]]


class Deliveries:
    """The dispatching half of a turn."""

    def __init__(
        self,
        journal: Journal,
        dispatcher: Consumers,
        timers: Timers,
        *,
        letters: DeadLettering,
        lookup: MessageLookup,
        effects: EffectsStage,
        counters: Counters,
        draw: Callable[[], float],
        want_turn: Callable[[], None],
    ) -> None:
        self._journal = journal
        self._consumers = dispatcher
        self._timers = timers
        self._letters = letters
        self._lookup = lookup
        self._effects = effects
        self._counters = counters
        self._draw = draw
        self._want_turn = want_turn
        self._setbacks: dict[tuple[int, int], CommitBackoff] = {}
        """Of groups' partitions whose dead letters could not be stored."""

    def end_expired(self, now: int) -> None:
        """Leases that are over, and retries that are due: their groups have work again."""
        for group, partition in self._timers.pop_due(now):
            if self._journal.state.groups_by_id.get(group.id) is not group:
                self._setbacks.pop((group.id, partition), None)
                continue  # It was deleted meanwhile.
            topic = self._journal.state.topics[group.topic]
            if not self._settle_done(topic, group, partition, now):
                continue
            self._suspect_silent(group, partition, now)
            record, casualties = decide_expiries(
                self._journal.state, topic, group, partition, now=now, draw=self._draw
            )
            if record is not None:
                self._journal.add(record)
                self._counters.expired += len(record.ended)
            group.partitions[partition].find_due(now)
            self._consumers.wake(group.topic, group.name, partition)
            if self._give_up(casualties, group, partition, now):
                self._timers.note(group, partition)

    def _suspect_silent(self, group: Group, partition: int, now: int) -> None:
        """Streams whose leases are over and whose owners gave no sign of life are held back."""
        leases = group.partitions[partition].leases
        silent = {block.holder for block in leases.expired(now) if block.is_silent}
        if silent:
            self._counters.stalls += self._consumers.lapsed(group.topic, group.name, silent, now=now)

    def _settle_done(self, topic: Topic, group: Group, partition: int, now: int) -> bool:
        """Settle expired deliveries whose effect is done; False when the disk has to be asked first."""
        if not self._journal.state.effects.committed:
            return True
        progress = group.partitions[partition]
        keyed = [
            ordinal
            for block in progress.leases.expired(now)
            for ordinal in progress.leases.held_by(block)
            if progress.index.place_at(ordinal).flags & FLAG_KEYED
        ]
        claims = [MessageRef(topic.id, progress.index.offset_at(ordinal)) for ordinal in keyed]
        cold = self._lookup.cold(claims)
        done: list[int] = []
        if not cold:
            for ordinal, claim in zip(keyed, claims, strict=True):
                entry = self._lookup.entry(claim)
                if entry is None:
                    continue
                stored = decode_entry(entry)
                identity = identity_of(stored, topic=topic.name, group=group.name)
                if identity is not None:
                    cold += self._effects.cold(identity)
                    topics = self._effects_for(topic, stored, at=produced_at(entry), now=now)
                    if not cold and self._effects.is_committed(identity, topics):
                        done.append(ordinal)
        if cold:
            self._fetch_then_look(cold, group, partition, now)
            return False
        if done:
            self._journal.add(settled(group, partition, done, cause=SETTLED_BY_ACK, now=now))
            self._counters.acked += len(done)
        return True

    def _effects_for(self, topic: Topic, stored: StoredMessage, *, at: int, now: int) -> range:
        """The topic ids whose effects count for a message of this topic."""
        if stored.requested_topic is None:
            return range(topic.id, topic.id + 1)
        return scope_of(self._journal.state, stored.requested_topic, produced_at=at, now=now).topics

    def deal(self, now: int, *, wall: int) -> Parcels:
        """Deliver all that can be delivered; the parcels go out when the commit is durable."""
        parcels: Parcels = []
        if self._consumers.alarms:
            self._consumers.wake_held_back(now)
        for ring in self._consumers.awake():
            group = self._journal.state.find_group(ring.topic, ring.group)
            if group is not None:
                for partition in list(ring.ready):
                    if not self._deal_partition(ring, group, partition, parcels, now, wall):
                        break
        return parcels

    def _deal_partition(
        self, ring: Members, group: Group, partition: int, parcels: Parcels, now: int, wall: int
    ) -> bool:
        """Deal as long as there is something; False when no consumer of the ring has room."""
        progress = group.partitions[partition]
        while progress.has_work(now):
            end = progress.index.end
            if progress.index.specials:
                clear, end = self._pass_by(group, partition, now, wall)
                if not clear:
                    del ring.ready[partition]
                    return True
            seats, takers = ring.takers(group, partition, now)
            if not takers:
                return False
            deal = decide_deliveries(
                group, partition, takers, limits=self._journal.state.limits, now=now, end=end
            )
            if deal is None:
                break  # In flight is what may be, and an ack wakes it; or all was passed by.
            blocks = self._journal.add_delivered(deal.record)
            fresh = len(deal.record.fresh)
            for number, (seat, block) in enumerate(zip(deal.seats, blocks, strict=True)):
                parcel = DeliveryBatch(progress, block, partition=partition, again=number >= fresh)
                parcels.append((seats[seat].outbox, parcel))
                block.give_to(seats[seat].holder, size_bytes=parcel.size_bytes())
                stall = seats[seat].stall
                if stall is not None:
                    self._consumers.dealt_to_stalled(ring, seats[seat], stall, now=now)
            self._counters.delivered += deal.count
            self._counters.redelivered += sum(len(block.ordinals) for block in deal.record.again)
            self._timers.note(group, partition)
            ring.passed(seats[deal.last])
        if progress.has_work(now):
            ring.ready[partition] = ring.ready.pop(partition)  # Behind the others.
        else:
            del ring.ready[partition]
        return True

    def _pass_by(self, group: Group, partition: int, now: int, wall: int) -> tuple[bool, int]:
        """Leave out what this group is not to get; False while what is too late has to be read first."""
        state = self._journal.state
        topic = state.topics[group.topic]
        while True:  # Behind what is given up there may be more that is too late.
            passed, late, end = decide_passing(state, topic, group, partition, now=now, wall=wall)
            if passed:
                self._journal.add(settled(group, partition, passed, cause=SETTLED_PASSED, now=now))
            if not self._give_up(late, group, partition, now):
                return False, end
            if not passed and not late:
                return True, end

    def _give_up(self, casualties: list[DeadLettered], group: Group, partition: int, now: int) -> bool:
        """Write dead letters; False when that has to wait, because their messages must be read first or
        because the last try failed. The group's partition is looked at again then."""
        if not casualties:
            return True
        place = (group.id, partition)
        setbacks = self._setbacks.get(place)
        if setbacks is None or now >= setbacks.quiet_until:
            cold = self._letters.cold(casualties)
            if cold:
                self._fetch_then_look(cold, group, partition, now)
                return False
            if self._letters.bury(casualties, now) is None:
                self._setbacks.pop(place, None)
                return True
            setbacks = self._setbacks.setdefault(place, CommitBackoff())
            setbacks.failed(now)
        self._timers.ring(group, partition, at=setbacks.quiet_until)
        return False

    def _fetch_then_look(self, cold: list[MessageRef], group: Group, partition: int, now: int) -> None:
        """Read these off the loop, then look at the group's partition again."""

        def again(error: NotConfirmed | None) -> None:
            if error is None:
                self._timers.ring(group, partition, at=now)
                self._consumers.wake(group.topic, group.name, partition)
            else:  # The disk does not give it: not at once again.
                self._timers.ring(group, partition, at=now + _READ_AGAIN_MS)
            self._want_turn()

        self._lookup.fetch(cold, again)
