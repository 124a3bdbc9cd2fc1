"""A log written step by step without a server: what is decided is committed at once."""

from __future__ import annotations

from driftq.core.commands import Ack, Capacity, Produce
from driftq.core.decide import decide_acks, decide_deliveries, decide_group, decide_produce, decide_topic
from driftq.core.decide.retention import decide_retention
from driftq.core.state import State, Topic
from driftq.log.files import Folder
from driftq.log.log import Log
from driftq.model import Envelope, Message, TopicOptions
from driftq.model.options.limits import Limits
from driftq.server.lookup import MessageLookup
from driftq.server.produce.prepare import prepare_all
from driftq.storage.entry import decode_entry
from driftq.storage.journal import Journal
from driftq.storage.payloads import Payloads

START = 1_700_000_000_000


class Story:
    """Topics, groups and messages in a folder, with a clock that is set by hand."""

    def __init__(
        self,
        folder: Folder,
        *,
        limits: Limits | None = None,
        segment_bytes: int = 4_096,
        segment_records: int = 1_000_000,
    ) -> None:
        self.limits = limits or Limits(idempotency_ttl_ms=1_000, retention_ms=10_000)
        self.folder = folder
        self.now = START
        self._segments = {"segment_bytes": segment_bytes, "segment_records": segment_records}
        self.log = Log.open(folder, segment_bytes=segment_bytes, segment_records=segment_records)
        self.payloads = Payloads(self.log)
        self.journal = Journal(self.log, self.payloads, limits=self.limits)
        self.recovery = self.journal.recover()

    @property
    def state(self) -> State:
        return self.journal.state

    def topic(self, name: str, partitions: int = 1, **options: object) -> Topic:
        record = decide_topic(
            self.state,
            name,
            partitions=partitions,
            options=TopicOptions(**options),  # type: ignore[arg-type]
            now=self.now,
        )
        if record is not None:
            self.journal.add(record)
            self.commit()
        return self.state.topics[name]

    def group(self, topic: str, name: str) -> None:
        record = decide_group(self.state, self.state.topics[topic], name, latest=False, now=self.now)
        if record is not None:
            self.journal.add(record)
            self.commit()

    def produce(self, topic: str, *values: str, key: str = "", envelope: Envelope | None = None) -> None:
        messages = [Message(topic=topic, value=value, key=key, envelope=envelope) for value in values]
        commands = [one for one in prepare_all(messages, at=self.now) if isinstance(one, Produce)]
        batch = decide_produce(
            self.state,
            self.state.topics[topic],
            commands,
            lookup=self._lookup().message,
            now=self.now,
            wall=self.now,
        )
        for record, entries in batch.records:
            self.journal.add_stored(record, entries)
        self.commit()

    def _lookup(self) -> MessageLookup:
        return MessageLookup(
            self.journal,
            self.payloads,
            None,  # type: ignore[arg-type]
            on_damage=print,
            want_turn=lambda: None,
        )

    def deliver(self, topic: str, group: str, count: int, *, owner: str = "w", lease_ms: int = 5_000) -> None:
        found = self.state.topics[topic].groups[group]
        for partition in range(len(found.partitions)):
            capacity = Capacity(0, owner, lease_ms, count)
            assignment = decide_deliveries(found, partition, [capacity], limits=self.limits, now=self.now)
            if assignment is not None:
                self.journal.add_delivered(assignment.record)
        self.commit()

    def ack(self, topic: str, group: str, *offsets: int, partition: int = 0, owner: str = "w") -> None:
        found = self.state.topics[topic]
        acks = [Ack(owner, partition, offset) for offset in offsets]
        records, outcomes = decide_acks(found, found.groups[group], acks, now=self.now)
        assert not any(outcomes), outcomes
        for record in records:
            self.journal.add(record)
        self.commit()

    def trim(self) -> int:
        """Drop what may go; how many unsettled ones were among it."""
        lost = 0
        for topic in list(self.state.topics.values()):
            record = decide_retention(self.state, topic, now=self.now, wall=self.now)
            if record is not None:
                self.journal.add(record)
                lost += sum(trim.lost for trim in record.trims)
        self.commit()
        return lost

    def commit(self) -> None:
        for frame in self.journal.take():
            self.log.write(frame)
            self.log.sync()
        self.log.confirm()

    def values(self, topic: str, partition: int = 0) -> list[str]:
        """What is kept, read from the files."""
        index = self.state.topics[topic].partitions[partition].index
        kept = range(index.first, index.end)
        return [decode_entry(entry).value for entry in self.payloads.read(index, kept)] if kept else []

    def reopened(self) -> Story:
        """The same folder after a clean end, at the same time."""
        self.log.close()
        again = Story(self.folder, limits=self.limits, **self._segments)
        again.now = self.now
        return again
