"""The broker's state: topics with their index, groups with their progress, writers, live keys."""

import msgspec

from driftq.core.dead_letter_ids import DeadLetterIds
from driftq.core.delays import DelaySchedule
from driftq.core.effects import EffectTable
from driftq.core.group import Group, GroupPartition
from driftq.core.index import PartitionIndex, TimeIndex
from driftq.core.jobs.table import JobTable
from driftq.core.keys import KeyTable
from driftq.core.memory import DeletedTopic, Memory
from driftq.core.owners import OwnerTable
from driftq.core.records import ORDINARY, DeliveryTerms
from driftq.core.schedules.table import ScheduleTable
from driftq.model import TopicOptions
from driftq.model.options.limits import Limits
from driftq.model.topic import DEAD_LETTER_PREFIX

NOTHING_YET = -1
"""The position of a lane that has nothing."""


class PositionWriter(msgspec.Struct):
    """A client that appends to one topic by position, with its current epoch and the positions of its lanes.

    A lane is an ordered part of its messages. Positions in it rise, so that a repeated message is recognized.
    An epoch is a fencing token: of two runs of one writer the older is refused. A writer is kept as long as
    its topic: a forgotten one would write twice.
    """

    epoch: int = 0
    lanes: dict[int, int] = msgspec.field(default_factory=dict)
    """The last position of each lane."""

    def position(self, lane: int) -> int:
        return self.lanes.get(lane, NOTHING_YET)


class Partition:
    """One partition: its messages and how much of them is not settled yet.

    `pressure` and `pressure_bytes` are upper bounds: producing raises them, and they are recounted only when
    they reach the limit and messages were settled since.
    """

    __slots__ = ("ages", "counted_at", "index", "pressure", "pressure_bytes", "relieved")

    def __init__(self) -> None:
        self.index = PartitionIndex()
        self.ages = TimeIndex()
        self.pressure = 0
        self.pressure_bytes = 0
        self.relieved = True
        self.counted_at = 0
        """When the pressure was counted last: time alone may end the count of an absent group."""


class Topic:
    """A topic with its partitions, groups and readers."""

    __slots__ = (
        "created_at",
        "deleted_groups",
        "groups",
        "id",
        "name",
        "next_offset",
        "options",
        "partitions",
        "purged",
        "readers",
        "redriven",
        "retention_ms",
        "seen_at",
        "start_offset",
        "tenant",
        "writers",
    )

    def __init__(
        self,
        *,
        id: int,
        name: str,
        partitions: int,
        options: TopicOptions,
        limits: Limits,
        start_offset: int = 0,
        created_at: int = 0,
        tenant: str = "",
    ) -> None:
        self.id = id
        self.name = name
        self.options = options
        self.retention_ms = limits.retention_ms if options.retention_ms is None else options.retention_ms
        self.created_at = created_at
        self.tenant = tenant
        """Who owns it; empty: nobody."""
        self.start_offset = start_offset
        """Where its offsets begin: those below belong to an earlier topic of this name."""
        self.next_offset = start_offset
        self.partitions = [Partition() for _ in range(partitions)]
        for part in self.partitions:
            part.index.first_offset = start_offset
        self.groups: dict[str, Group] = {}
        self.deleted_groups: Memory[int] = Memory()
        """The highest attempt that each deleted group handed out."""
        self.readers: dict[str, list[int]] = {}
        """Next ordinal per partition of each registered reader."""
        self.seen_at: dict[str, int] = {}
        """When each reader reported last."""
        self.redriven: dict[int, tuple[int, str]] = {}
        """Of a dead-letter topic: when and by whom a dead letter was redriven."""
        self.purged: set[int] = set()
        """Of a dead-letter topic: the purged dead letters."""
        self.writers: dict[str, PositionWriter] = {}

    @property
    def has_dead_letters(self) -> bool:
        """Whether messages of this topic can be dead-lettered: all but those of a dead-letter topic."""
        return not self.name.startswith(DEAD_LETTER_PREFIX)

    def locate(self, offset: int) -> tuple[int, int] | None:
        """Partition and ordinal of a kept message."""
        for number, part in enumerate(self.partitions):
            ordinal = part.index.find(offset)
            if ordinal is not None:
                return number, ordinal
        return None

    def count_pressure(self, partition: int, *, limits: Limits, now: int) -> None:
        """Count the unsettled messages of the slowest group or reader active within the retention.

        A delayed message counts with its bytes alone.
        """
        part = self.partitions[partition]
        index = part.index
        count = size_bytes = 0
        delays, delayed_from = index.specials.delays, index.specials.count_delayed
        if not self.groups and not self.readers and limits.count_unread:
            count = index.end - index.first - (delayed_from(index.first) if delays.count else 0)
            size_bytes = index.total_bytes - index.bytes_before
        since = now - self.retention_ms
        for group in self.groups.values():
            if group.seen_at < since:
                continue  # Its lag is still reported, and its messages are kept.
            progress = group.partitions[partition]
            count = max(count, progress.unsettled - progress.delayed)
            size_bytes = max(size_bytes, progress.unsettled_bytes)
        for reader, positions in self.readers.items():
            if self.seen_at[reader] < since:
                continue
            position = positions[partition]
            count = max(count, index.end - position - (delayed_from(position) if delays.count else 0))
            size_bytes = max(size_bytes, index.total_bytes - index.bytes_upto(position))
        part.pressure, part.pressure_bytes, part.relieved = count, size_bytes, False
        part.counted_at = now


class State:
    """The fold of the log."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.topics: dict[str, Topic] = {}
        self.topics_by_id: dict[int, Topic] = {}
        self.groups_by_id: dict[int, Group] = {}
        self.deleted_topics: Memory[DeletedTopic] = Memory()
        self.keys = KeyTable(ttl_ms=limits.idempotency_ttl_ms)
        self.dead_letter_ids = DeadLetterIds()
        self.terms: list[DeliveryTerms] = [ORDINARY]
        self.terms_numbers: dict[DeliveryTerms, int] = {}
        self.effects = EffectTable(ttl_ms=limits.effect_ttl_ms)
        self.jobs = JobTable(kept_ms=limits.jobs_kept_ms)
        self.owners = OwnerTable()
        self.schedules = ScheduleTable()
        self.delays = DelaySchedule()
        self.last_at = 0
        """The latest time in the log: engine time is never earlier."""
        self.next_topic = 1
        self.next_group = 1

    def number_of(self, terms: DeliveryTerms) -> int:
        """The number of these terms in the index."""
        number = self.terms_numbers.get(terms)
        if number is None:
            number = self.terms_numbers[terms] = len(self.terms)
            self.terms.append(terms)
        return number

    def next_delay(self) -> tuple[int, Topic, int] | None:
        """The earliest instant that a delayed message waits for, with its topic and partition."""
        while (head := self.delays.first()) is not None:
            at, topic_id, number = head
            topic = self.topics_by_id.get(topic_id)
            if topic is None:
                self.delays.pop()
                continue
            specials = topic.partitions[number].index.specials
            is_live = specials.delays.scheduled_at == at
            if is_live and specials.next_instant() == at:
                return at, topic, number
            self.delays.pop()
            if is_live:
                specials.delays.scheduled_at = None
                self.schedule_delays(topic, number)
        return None

    def schedule_delays(self, topic: Topic, partition: int) -> None:
        """The earliest instant of this partition may have changed."""
        specials = topic.partitions[partition].index.specials
        at, scheduled_at = specials.next_instant(), specials.delays.scheduled_at
        if at is not None and (scheduled_at is None or at < scheduled_at):
            specials.delays.scheduled_at = at
            self.delays.add(at, topic=topic.id, partition=partition)

    def progress(self, group: int, partition: int) -> GroupPartition:
        return self.groups_by_id[group].partitions[partition]

    def count_pressure(self, topic: Topic, now: int) -> None:
        """Recount what the slowest group or reader of each partition has not settled."""
        for number in range(len(topic.partitions)):
            topic.count_pressure(number, limits=self.limits, now=now)
