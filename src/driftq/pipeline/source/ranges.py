"""Which task reads what: sealed ranges from the files of the topic's table, everything else over HTTP.

Ranges of one plan do not overlap and leave nothing out. The source of a range never changes its rows.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

from pyspark.sql.datasource import InputPartition

from driftq.errors import InvalidArgument
from driftq.model.wire.topics import SpansReply
from driftq.pipeline.source.offsets import Offsets
from driftq.pipeline.source.topics import Topics
from driftq.storage.address import read_instance
from driftq.tables.reader import TableFile, read_table

PIECE_MESSAGES = 100_000
"""The most messages that one task fetches over HTTP."""
TASK_ROWS = 400_000
"""One task reads several small files, up to about this many rows."""
CUTS_MAX = 10_000
"""The most cuts of a partition that the server names."""


class SealedFile(NamedTuple):
    """A Parquet file of the table; `end` is after its last offset."""

    path: str
    end: int


@dataclass
class TopicRange(InputPartition):
    """Offsets of one partition for one task: from `start` up to, without, `end`."""

    topic: str
    partition: int
    start: int
    end: int
    files: tuple[SealedFile, ...] = ()
    """Where the rows are sealed."""
    messages: int | None = None
    """How many there are, if they are fetched."""
    instance: str | None = None
    """Which start of the server has the files: another machine may have a folder of the same name."""


class OffsetRange(NamedTuple):
    """Offsets of a partition: from `start` up to, without, `end`."""

    partition: int
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Cutting:
    """How a plan is to be cut, as users of Spark's Kafka source ask for it."""

    partitions_min: int | None = None
    """Of the whole plan; a partition of a topic gets its share of them."""
    records_max: int | None = None
    """In one range."""

    def size(self, messages: int, *, total: int) -> int | None:
        """How many messages of a partition one range may have; None when it need not be cut.

        Raises InvalidArgument when there would be more ranges than the server can name.
        """
        size = messages
        if self.partitions_min is not None and total:
            size = math.ceil(messages / max(1, round(messages * self.partitions_min / total)))
        if self.records_max is not None:
            size = min(size, self.records_max)
        if messages > size * CUTS_MAX:
            option = "maxRecordsPerPartition" if size == self.records_max else "minPartitions"
            raise InvalidArgument(
                option, f"cuts {messages} messages of a partition into more than {CUTS_MAX}"
            )
        return size if size < messages else None


UNCUT = Cutting()


def plan(
    topics: Topics, start: Offsets, end: Offsets, *, data: str, cutting: Cutting = UNCUT
) -> list[TopicRange]:
    """The ranges between two offsets; raises MessagesExpired or TopicStartedOver unless loss is allowed."""
    found: dict[str, SpansReply] = {}
    for topic, partitions in end.items():
        start_offsets = start.get(topic, {})
        wanted = [
            {"partition": int(number), "from": start_offsets.get(number, 0), "to": upto}
            for number, upto in partitions.items()
            if start_offsets.get(number, 0) != upto
        ]
        if wanted:
            found[topic] = topics.spans(topic, wanted)
    total = sum(span.messages for spans in found.values() for span in spans.spans)
    planned: list[TopicRange] = []
    for topic, spans in found.items():
        whole = _checked(topics, topic, spans, end[topic], known=start.get(topic, {}))
        sizes = [cutting.size(span.messages, total=total) for span in spans.spans]
        pieces = _cut(topics, topic, whole, sizes)
        planned += _plan_topic(topics, topic, spans, pieces, data=data)
    return planned


def _checked(
    topics: Topics, topic: str, found: SpansReply, ends: Mapping[str, int], *, known: Mapping[str, int]
) -> list[OffsetRange]:
    """The range of each span, from where its messages really begin."""
    return [
        OffsetRange(
            span.partition,
            topics.checked(topic, span, next_offset=found.next_offset)
            if str(span.partition) in known
            else span.from_,
            ends[str(span.partition)],
        )
        for span in found.spans
    ]


def _cut(
    topics: Topics, topic: str, whole: Sequence[OffsetRange], sizes: Sequence[int | None]
) -> list[OffsetRange]:
    """The ranges in pieces of these numbers of messages."""
    queries = [
        {"partition": one.partition, "from": one.start, "to": one.end, "every": size}
        for one, size in zip(whole, sizes, strict=True)
        if size is not None
    ]
    spans = topics.spans(topic, queries).spans if queries else []
    cuts = {span.partition: span.cuts for span in spans}
    return [
        OffsetRange(one.partition, first, end)
        for one in whole
        for first, end in pairwise([one.start, *cuts.get(one.partition, ()), one.end])
    ]


def _plan_topic(
    topics: Topics, topic: str, found: SpansReply, pieces: Sequence[OffsetRange], *, data: str
) -> Iterator[TopicRange]:
    folder = os.path.abspath(os.path.join(data, "tables", topic))
    files = sealed_files(folder) if _is_servers_folder(found, data) else []
    first_offsets = {span.partition: span.first_offset for span in found.spans}
    gaps: list[OffsetRange] = []
    for piece in pieces:
        # Files below the first offset may belong to a deleted topic of this name.
        kept_from = max(piece.start, first_offsets[piece.partition])
        own_files = [
            file
            for file in files
            if file.partition == piece.partition
            and file.last_offset >= kept_from
            and file.first_offset < piece.end
        ]
        for one in _sealed_ranges(topic, own_files, folder, begin=piece.start, upto=piece.end):
            one.instance = found.instance
            yield one
        gaps += uncovered(own_files, piece)
    yield from _fetched_ranges(topics, topic, gaps)


def _is_servers_folder(found: SpansReply, data: str) -> bool:
    """Whether the readable folder belongs to the server that answers."""
    return found.table and bool(found.instance) and read_instance(data) == found.instance


def sealed_files(path: str) -> list[TableFile]:
    """The files of a table, in the order of their offsets."""
    manifest = read_table(path)
    return sorted(manifest.files, key=lambda file: file.first_offset) if manifest else []


def _sealed_ranges(
    topic: str, files: Sequence[TableFile], folder: str, *, begin: int, upto: int
) -> Iterator[TopicRange]:
    """One range for each large file, or for several adjacent small ones."""
    together: list[TableFile] = []
    rows = 0
    for file in [*files, None]:
        more = 0 if file is None else _rows_between(file, begin=begin, upto=upto)
        full = file is None or rows + more > TASK_ROWS
        if together and full:
            first, last = together[0], together[-1]
            yield TopicRange(
                topic,
                first.partition,
                max(begin, first.first_offset),
                min(upto, last.last_offset + 1),
                files=tuple(
                    SealedFile(os.path.join(folder, one.name), one.last_offset + 1) for one in together
                ),
            )
            together, rows = [], 0
        if file is not None:
            together.append(file)
            rows += more


def _rows_between(file: TableFile, *, begin: int, upto: int) -> int:
    """About how many rows of a file lie between two offsets: a batch may end within a file."""
    offsets = min(upto, file.last_offset + 1) - max(begin, file.first_offset)
    return file.rows * offsets // (file.last_offset + 1 - file.first_offset)


def uncovered(files: Sequence[TableFile], piece: OffsetRange) -> Iterator[OffsetRange]:
    """The offsets before, between and after the files. Most hold no message: offsets have gaps."""
    start = piece.start
    for file in files:
        if start < file.first_offset:
            yield OffsetRange(piece.partition, start, file.first_offset)
        start = max(start, file.last_offset + 1)
    if start < piece.end:
        yield OffsetRange(piece.partition, start, piece.end)


def _fetched_ranges(topics: Topics, topic: str, gaps: Sequence[OffsetRange]) -> Iterator[TopicRange]:
    if not gaps:
        return
    queries = [
        {"partition": one.partition, "from": one.start, "to": one.end, "every": PIECE_MESSAGES}
        for one in gaps
    ]
    for gap, span in zip(gaps, topics.spans(topic, queries).spans, strict=True):
        left = span.messages
        cuts = [gap.start, *span.cuts, gap.end]
        for first, end in pairwise(cuts):
            if left > 0:
                count = min(left, PIECE_MESSAGES)
                yield TopicRange(topic, gap.partition, first, end, messages=count)
                left -= count
