"""The event store: append to aggregates, read them back, follow the log."""

import datetime as dt
import itertools
import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from driftq.errors import InvalidArgument
from driftq.eventstore.append.draft import SEQUENCE_MAX, draft, occurred_at_us
from driftq.eventstore.append.rule import Answer, Group
from driftq.eventstore.append.writer import EventWriter
from driftq.eventstore.options import AllocatorMode, StoreOptions
from driftq.eventstore.outcome import (
    ALL_EVENTS,
    AggregatePage,
    Append,
    Appended,
    EventFilter,
    LogPage,
    Refused,
    StoredPage,
    TimeMark,
    TimePage,
)
from driftq.eventstore.read.followers import Followers
from driftq.eventstore.read.reader import Reader
from driftq.eventstore.schema import event_migrations, load_queries
from driftq.model import Aggregate
from driftq.model.time import microseconds
from driftq.sql import Database, Dialect, key_text, prepare

if TYPE_CHECKING:
    from driftq.eventstore.objects import Objects

PAGE_EVENTS = 1000
PAGE_EVENTS_MAX = 10_000

_Commands = list[tuple[int, Append]]
"""Each with its place among all that were given."""

_logger = logging.getLogger(__name__)


def _utc_now() -> dt.datetime:
    return dt.datetime.now(dt.UTC)


class EventStore:
    """Events in a database, and in segments where payloads were trimmed. Safe to share between threads."""

    def __init__(
        self,
        database: Database,
        *,
        options: StoreOptions | None = None,
        objects: "Objects | None" = None,
        now: Callable[[], dt.datetime] = _utc_now,
    ) -> None:
        """Raises InvalidArgument for an allocator of another database, and SchemaError or SegmentsAhead
        when the tables do not match this release or the segments.
        """
        self._options = options or StoreOptions()
        self._mode = _mode(self._options, database)
        self._now = now
        prepare(database, event_migrations(database))
        queries = load_queries(database)
        if objects is not None:
            from driftq.eventstore.seal.history import require_own_history  # obstore is needed only here

            require_own_history(database, queries, objects)
        self._writer = EventWriter(
            database,
            queries,
            mode=self._mode,
            mismatch=self._options.mismatch,
            handler_prefix=self._options.handler_prefix,
        )
        self._reader = Reader(database, queries, objects)
        self.followers = Followers(database, queries)

    def append(self, commands: Sequence[Append]) -> list[Appended]:
        """Append a list and answer for each event; raises the first error.

        All or nothing for each aggregate: when this raises, the events of other aggregates may be stored.
        Sending the list again is safe, because stored events are then duplicates.
        """
        answers = self.append_each(commands)
        for answer in answers:
            if isinstance(answer, Refused):
                raise answer.error
        return [answer for answer in answers if isinstance(answer, Appended)]

    def append_each(self, commands: Sequence[Append]) -> list[Answer]:
        """As `append`, with errors among the answers instead of raised."""
        return self.append_many([commands])[0]

    def append_many(self, requests: Sequence[Sequence[Append]]) -> list[list[Answer]]:
        """Lists of several callers, which share transactions: an error affects only its own list."""
        answers: dict[int, Answer] = {}
        fit: list[Group] = []
        now_us = microseconds(self._now())
        for aggregate, commands in _by_aggregate(requests):
            try:
                fit.append(
                    [
                        draft(each, aggregate, index, mode=self._mode, now_us=now_us)
                        for index, each in commands
                    ]
                )
            except InvalidArgument as error:
                answers |= {index: Refused(each.event.event_id, error) for index, each in commands}
        for batch in _batches(fit, events_max=self._options.transaction_events_max):
            for group, group_answers in zip(batch, self._writer.store(batch), strict=True):
                for each, answer in zip(group, group_answers, strict=True):
                    answers[each.index] = answer
        for answer in answers.values():
            if isinstance(answer, Appended) and answer.payload_mismatch:
                _logger.warning(
                    "event_id %r was sent again with different content; the stored event is unchanged",
                    answer.event_id,
                )
        in_order = map(answers.__getitem__, itertools.count())
        return [list(itertools.islice(in_order, len(commands))) for commands in requests]

    def read_aggregate(
        self, aggregate_type: str, aggregate_id: str, *, from_seq: int = 1, limit: int = PAGE_EVENTS
    ) -> AggregatePage:
        """Events of one aggregate in sequence order, `from_seq` included."""
        aggregate = Aggregate(
            key_text("aggregate_type", aggregate_type), key_text("aggregate_id", aggregate_id)
        )
        return self._reader.aggregate(
            aggregate, from_seq=_at_least_one("from_seq", from_seq), limit=_limit(limit)
        )

    def has_type(self, aggregate_type: str) -> bool:
        """Whether there are events of this aggregate type."""
        return self._reader.has_type(key_text("aggregate_type", aggregate_type))

    def read_log(
        self, *, from_position: int = 1, limit: int = PAGE_EVENTS, wanted: EventFilter = ALL_EVENTS
    ) -> LogPage:
        """Events in log order, `from_position` included; an event appears once it has a position."""
        start = _at_least_one("from", from_position)
        return self._reader.log(from_position=start, limit=_limit(limit), wanted=wanted)

    def read_stored(
        self, *, from_position: int = 1, limit: int = PAGE_EVENTS, wanted: EventFilter = ALL_EVENTS
    ) -> StoredPage:
        """The same events in their stored form: JSON texts, instants in microseconds, the hash."""
        start = _at_least_one("from", from_position)
        return self._reader.stored_log(from_position=start, limit=_limit(limit), wanted=wanted)

    def read_time(
        self,
        since: dt.datetime,
        until: dt.datetime,
        *,
        limit: int = PAGE_EVENTS,
        after: TimeMark | None = None,
    ) -> TimePage:
        """Events of the log that occurred from `since` on and before `until`."""
        return self._reader.time(
            since_us=occurred_at_us(since), until_us=occurred_at_us(until), limit=_limit(limit), after=after
        )

    def log_end(self) -> int:
        """The last position that an event has; 0 for an empty log."""
        return self._reader.end()


def _by_aggregate(requests: Sequence[Sequence[Append]]) -> Iterator[tuple[Aggregate, _Commands]]:
    """The commands of each request and aggregate, in order of first appearance."""
    index = 0
    for commands in requests:
        if len(commands) == 1:  # As most callers send them.
            yield commands[0].event.aggregate, [(index, commands[0])]
            index += 1
            continue
        groups: dict[Aggregate, _Commands] = {}
        for command in commands:
            groups.setdefault(command.event.aggregate, []).append((index, command))
            index += 1
        yield from groups.items()


def _batches(groups: Iterable[Group], *, events_max: int) -> Iterator[list[Group]]:
    """Groups that share a transaction. A group is never split: one above the limit has its own."""
    batch: list[Group] = []
    size = 0
    for group in groups:
        if batch and size + len(group) > events_max:
            yield batch
            batch, size = [], 0
        batch.append(group)
        size += len(group)
    if batch:
        yield batch


def _mode(options: StoreOptions, database: Database) -> AllocatorMode:
    own = AllocatorMode.SQLITE if database.dialect is Dialect.SQLITE else AllocatorMode.POSTGRES
    asked = options.allocator or own
    if asked in (AllocatorMode.SQLITE, AllocatorMode.POSTGRES) and asked is not own:
        raise InvalidArgument("allocator", f"{asked} cannot number events in {database.address}")
    return asked


def _at_least_one(field: str, number: int) -> int:
    if not 0 <= number <= SEQUENCE_MAX:
        raise InvalidArgument(field, f"must be from 0 to {SEQUENCE_MAX}")
    return max(number, 1)


def _limit(limit: int) -> int:
    if not 1 <= limit <= PAGE_EVENTS_MAX:
        raise InvalidArgument("limit", f"must be from 1 to {PAGE_EVENTS_MAX}")
    return limit
